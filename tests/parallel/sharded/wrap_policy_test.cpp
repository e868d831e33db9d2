// Into which units models are cut, against PyTorch's FSDP 1 and Accelerate's FSDP 2;
// tests/reference/wrap_policy.py wrote the expectations.
#include "accelerate/parallel/sharded/wrap_policy.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/parallel/module_tree.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/reference.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;
using Units = std::map<std::string, Names>;

const Json& golden() {
  static const Json json = Json::parse(testing::read_reference("wrap_policy.json"));
  return json;
}

// --- Python's models and settings in our types ---------------------------------------------------

ModuleView view_in(const Json& model) {
  static const std::vector<int> identities(100);
  std::map<int, at::Tensor> tensors;
  ModuleView view;
  for (const Json& module : model["modules"]) {
    const auto index = module[2].get<std::size_t>();
    view.modules.push_back({module[0], module[1], &identities.at(index)});
  }
  for (const Json& parameter : model["parameters"]) {
    auto& tensor = tensors[parameter[1]];
    if (!tensor.defined()) tensor = torch::zeros({parameter[2].get<std::int64_t>()});
    view.parameters.push_back({parameter[0], tensor});
  }
  return view;
}

ResolvedFsdpOptions settings_in(const Json& row) {
  ResolvedFsdpOptions settings;
  settings.version = row["version"];
  settings.auto_wrap_policy = parse_enum<AutoWrapPolicy>(row["policy"].get<std::string>()).value();
  settings.transformer_cls_names_to_wrap = row.value("classes", Names());
  settings.min_num_params = row.value("min", 0);
  settings.ignored_modules = row["ignored"].get<Names>();
  if (row["mixed"]) settings.param_dtype = DType::bf16;
  return settings;
}

// --- Comparison ----------------------------------------------------------------------------------

std::set<std::string> tied_in(const ModuleView& view) {
  std::map<const void*, Names> names;
  for (const auto& [name, tensor] : view.parameters) {
    names[tensor.unsafeGetTensorImpl()].push_back(name);
  }
  std::set<std::string> tied;
  for (const auto& [tensor, all] : names) {
    if (all.size() > 1) tied.insert(all.begin(), all.end());
  }
  return tied;
}

// Parameters by unit, without `left_out`; the original's tail unit is a part of our root.
Units units_without(const std::set<std::string>& left_out, const Units& units) {
  Units result;
  for (const auto& [unit, parameters] : units) {
    for (const auto& name : parameters) {
      if (!left_out.contains(name)) result[unit == "tail" ? "" : unit].push_back(name);
    }
  }
  for (auto& [unit, parameters] : result) std::sort(parameters.begin(), parameters.end());
  return result;
}

Units planned(const ModuleView& view, const ResolvedFsdpOptions& settings) {
  const auto parameters = without_duplicates(view.parameters);
  Units units;
  for (const UnitPlan& unit : plan_units(view, settings)) {
    for (const auto index : unit.parameters) units[unit.name].push_back(parameters[index].name);
  }
  return units;
}

// Where a weight is tied across units the original gives it to whichever is wrapped first, and the
// other unit then lacks it; TiedWeights… below says what we do.
TEST(WrapPolicyGolden, CutsModelsAsPyTorchAndAccelerateDo) {
  const testing::LogCapture quiet;
  int compared = 0;
  for (const Json& row : golden()["rows"]) {
    if (row.contains("error")) continue;
    const ModuleView view = view_in(golden()["models"][row["model"].get<std::string>()]);
    const auto tied = tied_in(view);
    ++compared;
    EXPECT_EQ(units_without(tied, planned(view, settings_in(row))),
              units_without(tied, row["units"].get<Units>()))
        << row.dump();
  }
  EXPECT_EQ(compared, 158);
}

TEST(WrapPolicyGolden, RefusesAClassThatIsNotThereInTheWordsOfTheOriginal) {
  int refused = 0;
  for (const Json& row : golden()["rows"]) {
    if (!row.contains("error")) continue;
    ++refused;
    std::string theirs = row["error"];
    const auto message = testing::message_of<ConfigError>([&] {
      (void)plan_units(view_in(golden()["models"][row["model"].get<std::string>()]),
                       settings_in(row));
    });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, theirs, message);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                        "Its classes are Transformer, Embedding, ModuleList, Block, Linear",
                        message);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Did you mean 'Block'?", message);
  }
  EXPECT_EQ(refused, 2);
}

// --- Modules of ours -----------------------------------------------------------------------------

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width) {
    register_module("up", torch::nn::Linear(width, width));
    register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
};
TORCH_MODULE(Block);

template <typename Inner>
struct WrappedImpl : torch::nn::Module {
  WrappedImpl() { register_module("inner", Inner(3)); }
};

ResolvedFsdpOptions by_class(const Names& classes, int version = 1) {
  ResolvedFsdpOptions settings;
  settings.version = version;
  settings.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  settings.transformer_cls_names_to_wrap = classes;
  return settings;
}

Names unit_names(const std::vector<UnitPlan>& units) {
  Names names;
  for (const auto& unit : units) names.push_back(unit.name);
  return names;
}

TEST(WrapPolicy, KnowsAClassByItsNameWithoutScopesArgumentsAndImpl) {
  EXPECT_EQ(class_word("torch::nn::LinearImpl"), "Linear");
  EXPECT_EQ(class_word("a::WrappedImpl<b::C<d::E>, 3>"), "Wrapped");
  EXPECT_EQ(class_word("(anonymous namespace)::test()::Net"), "Net");
  EXPECT_EQ(class_word("__torch__.nets.___torch_mangle_3.Block"), "Block");
  EXPECT_EQ(class_word("Impl"), "Impl");
  EXPECT_EQ(class_word(" Block "), "Block");
  EXPECT_EQ(class_word(""), "");
}

TEST(WrapPolicy, FindsClassesOfCppModulesAlsoOfTemplates) {
  torch::nn::Module model;
  model.register_module("a", Block(2));
  model.register_module("b", std::make_shared<WrappedImpl<Block>>());
  model.register_parameter("own", torch::zeros({3}));
  const auto view = view_of(model);
  EXPECT_EQ(unit_names(plan_units(view, by_class({"Block"}))), (Names{"", "a", "b.inner"}));
  EXPECT_EQ(unit_names(plan_units(view, by_class({"BlockImpl", "Wrapped"}))),
            (Names{"", "a", "b.inner"}))
      << "Wrapped has no parameters of its own";
}

TEST(WrapPolicy, FindsClassesOfTorchScript) {
  torch::jit::Module model("__torch__.nets.Net");
  for (const char* name : {"first", "second"}) {
    torch::jit::Module block(std::string("__torch__.nets.___torch_mangle_") + name + ".Block");
    block.register_parameter("weight", torch::zeros({2}), false);
    model.register_module(name, block);
  }
  EXPECT_EQ(unit_names(plan_units(view_of(model), by_class({"Block"}))),
            (Names{"first", "second"}));
}

// The mission's model and class; tests/reference/bert_tiny.py exported it.
TEST(WrapPolicy, FindsTheLayersOfATransformersBertInTorchScript) {
  auto bert = torch::jit::load(testing::reference_path("bert_tiny.pt"));
  const auto units = plan_units(view_of(bert), by_class({"BertLayer"}));
  EXPECT_EQ(unit_names(units),
            (Names{"", "bert.encoder.layer.0", "bert.encoder.layer.1", "bert.encoder.layer.2"}));
  std::size_t parameters = 0;
  for (const auto& unit : units) parameters += unit.parameters.size();
  EXPECT_EQ(parameters, without_duplicates(view_of(bert).parameters).size());
  const auto message = testing::message_of<ConfigError>(
      [&] { (void)plan_units(view_of(bert), by_class({"BertLayers"})); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Did you mean 'BertLayer'?", message);
}

TEST(WrapPolicy, PutsTheRootFirstAndLeavesItOutWhenItIsEmpty) {
  torch::nn::ModuleList model(Block(2), Block(3));
  EXPECT_EQ(unit_names(plan_units(view_of(*model), by_class({"Block"}))), (Names{"0", "1"}));
  model->push_back(torch::nn::Linear(2, 2));
  const auto units = plan_units(view_of(*model), by_class({"Block"}));
  EXPECT_EQ(unit_names(units), (Names{"", "0", "1"}));
  EXPECT_EQ(units[0].parameters, (std::vector<std::size_t>{8, 9}));
}

TEST(WrapPolicy, TiedWeightsBelongToTheDeepestUnitAroundAllTheirNames) {
  const ModuleView view = view_in(golden()["models"]["shared"]);
  const Units units = planned(view, by_class({"Block"}));
  EXPECT_EQ(units.at(""), (Names{"first.1.weight", "first.1.bias"})) << "tied into `second`";
  EXPECT_EQ(units.at("third").front(), "third.up.weight") << "tied inside `third`";
  const Units sequential = planned(view, by_class({"Sequential", "Linear"}));
  EXPECT_EQ(sequential.at(""), (Names{"first.1.weight", "second.norm.weight", "second.norm.bias",
                                      "third.up.weight", "third.norm.weight", "third.norm.bias"}));
}

TEST(WrapPolicy, AModuleThatIsRegisteredTwiceIsOneUnit) {
  torch::nn::Module model;
  const Block shared(2);
  model.register_module("a", shared);
  model.register_module("b", shared);
  model.register_module("c", Block(2));
  EXPECT_EQ(unit_names(plan_units(view_of(model), by_class({"Block"}))), (Names{"a", "c"}));
}

TEST(WrapPolicy, AnIgnoredModuleIsIgnoredUnderAllItsNames) {
  torch::nn::Module model;
  const Block shared(2);
  model.register_module("a", shared);
  model.register_module("b", shared->children().at(0));
  ResolvedFsdpOptions settings = by_class({"Block"});
  settings.ignored_modules = {"b"};
  const auto view = view_of(model);
  EXPECT_EQ(planned(view, settings), (Units{{"a", {"a.norm.weight", "a.norm.bias"}}}));
}

TEST(WrapPolicy, WarnsOfAnExpressionThatMatchesNothing) {
  const testing::LogCapture log;
  ResolvedFsdpOptions settings;
  settings.ignored_modules = {"lay"};
  (void)plan_units(view_in(golden()["models"]["transformer"]), settings);
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'lay', which matches the whole name of no module",
                      log.lines()[0]);
}

// As in Python, whose policy then matches nothing; only there it is not said.
TEST(WrapPolicy, GathersTheModelAsAWholeWhenNoClassIsNamed) {
  const testing::LogCapture log;
  EXPECT_EQ(plan_units(view_in(golden()["models"]["convolutions"]), by_class({})).size(), 1U);
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "Convolutions, Sequential, Conv2d, BatchNorm2d, ReLU, ModuleList",
                      log.lines()[0]);
}

TEST(WrapPolicy, BatchNormsKeepFullPrecisionUnderAMixedPrecisionPolicy) {
  const ModuleView view = view_in(golden()["models"]["convolutions"]);
  for (const auto& wrapping :
       {by_class({"Conv2d"}), by_class({"Conv2d"}, 2), ResolvedFsdpOptions{}}) {
    ResolvedFsdpOptions settings = wrapping;
    for (const auto& unit : plan_units(view, settings)) EXPECT_FALSE(unit.full_precision);
    settings.param_dtype = DType::bf16;
    Names full;
    for (const auto& unit : plan_units(view, settings)) {
      if (unit.full_precision) full.push_back(unit.name);
    }
    EXPECT_EQ(full, (Names{"stem.1", "blocks.0.1", "blocks.1.1", "head.2"}));
  }
}

}  // namespace
}  // namespace accelerate::detail
