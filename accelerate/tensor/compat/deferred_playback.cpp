// Plays the tape: computes values by the recorded calls, with the random numbers of plain code.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <cstring>
#include <map>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/deferred_tape.h"

namespace accelerate::compat {
namespace {

// The last tape that drew from a generator, and the states that it left: the next tape continues
// there.
struct LastDraw {
  std::weak_ptr<Tape> tape;
  std::size_t stream = 0;
  at::Tensor left;  // The state into which the generator was put.
  at::Tensor end;   // The state at the end of the stream, if known after its tape has gone.
};

struct LastDraws {
  std::mutex mutex;
  std::map<const c10::GeneratorImpl*, LastDraw> by_generator;
};

LastDraws& last_draws() {
  static auto* all = new LastDraws;  // Tapes may outlive static objects.
  return *all;
}

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// Moves `generator` on, as if it had drawn, so that the program's next draws differ from the
// tape's. The seed that programs can ask for stays. Returns the new state.
at::Tensor move_on(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  auto* engine = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::uint64_t seed = engine->current_seed();
  engine->set_current_seed(engine->random64());
  auto state = generator.get_state();
  std::memcpy(state.data_ptr(), &seed, sizeof seed);  // The state begins with the seed.
  generator.set_state(state);
  return state;
}

bool same_geometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

// Returns the storage of `result` with the strides of the meta device, which may differ.
at::Storage laid_out(const at::Tensor& result, const at::Tensor& outline) {
  TORCH_INTERNAL_ASSERT(result.scalar_type() == outline.scalar_type() &&
                        result.sizes() == outline.sizes());
  if (same_geometry(result, outline)) return result.storage();
  auto copy = at::empty_strided(outline.sizes(), outline.strides(), result.options());
  return copy.copy_(result).storage();
}

}  // namespace

Tape::~Tape() {
  auto& all = last_draws();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const auto& stream = streams_[i];
    auto& last = all.by_generator[stream.source.unsafeGetGeneratorImpl()];
    const auto self = weak_from_this();
    const bool is_last = !last.tape.owner_before(self) && !self.owner_before(last.tape);
    if (is_last && last.stream == i && stream.states.size() == stream.draws.size() + 1)
      last.end = stream.states.back();
  }
}

void Tape::need(std::size_t entry, std::set<std::size_t>& needed) const {
  std::vector<std::size_t> todo = {entry};
  while (!todo.empty()) {
    const std::size_t next = todo.back();
    todo.pop_back();
    if (!needed.insert(next).second) continue;
    for (const auto& read : entries_[next].reads)
      for (const std::size_t writer : writers_[read.storage])
        if (writer < next) todo.push_back(writer);
  }
}

std::set<std::size_t> Tape::needed_for(StorageId storage) const {
  std::set<std::size_t> needed;
  for (const std::size_t writer : writers_[storage]) need(writer, needed);
  return needed;
}

at::Storage Tape::value_of(StorageId storage) {
  const std::lock_guard lock(mutex_);
  Values values;
  play(needed_for(storage), values);
  return values.at(storage);
}

void Tape::play(const std::set<std::size_t>& entries, Values& values) {
  const at::NoGradGuard no_grad;
  for (const std::size_t number : entries) play(entries_[number], values);
}

void Tape::play(const Entry& entry, Values& values) {
  if (!entry.op) {
    values[entry.writes.front()] = entry.from->value_of(entry.from_storage);
    return;
  }
  auto stack = arguments_of(entry, values);
  if (entry.draw) {
    draw(entry, stack);
  } else {
    entry.op->callBoxed(stack);
  }
  bind(entry, stack, values);
}

torch::jit::Stack Tape::arguments_of(const Entry& entry, Values& values) const {
  for (const auto& [constant, version] : entry.constants) {
    if (!constant.is_inference() && constant._version() != version)
      throw UsageError(std::string("a tensor that ") + toString(entry.op->operator_name()) +
                       " took while init_empty_weights was alive was changed in place since. " +
                       "Leave it as it is until the model has memory, or pass a clone.");
  }
  torch::jit::Stack stack;
  for (const auto& argument : entry.arguments) {
    stack.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
      for (const auto& [storage, outline] : entry.reads)
        if (outline.is_same(tensor)) return over_storage(values.at(storage), outline);
      return tensor;
    }));
  }
  return stack;
}

void Tape::bind(const Entry& entry, const torch::jit::Stack& results, Values& values) {
  std::size_t place = 0;
  auto output = entry.outputs.begin();
  for (const auto& result : results) {
    (void)map_tensors(result, [&](const at::Tensor& tensor) {
      if (output != entry.outputs.end() && output->place == place) {
        values[output->storage] = laid_out(tensor, output->geometry);
        ++output;
      }
      ++place;
      return tensor;
    });
  }
}

// Returns the draw of `next`, the entry that is added next.
Tape::Draw Tape::new_draw(const Entry& next) {
  auto source = at::detail::getDefaultCPUGenerator();
  if (const auto place = next.op->schema().argumentIndexWithName("generator")) {
    const auto& given = next.arguments[static_cast<std::size_t>(*place)];
    if (given.isGenerator()) source = given.toGenerator();
  }
  std::size_t stream = 0;
  while (stream < streams_.size() && streams_[stream].source != source) ++stream;
  if (stream == streams_.size()) stream = new_stream(source);
  streams_[stream].draws.push_back(entries_.size());
  return {stream, streams_[stream].draws.size() - 1};
}

std::size_t Tape::new_stream(const at::Generator& source) {
  auto& all = last_draws();
  const std::lock_guard lock(all.mutex);
  auto& last = all.by_generator[source.unsafeGetGeneratorImpl()];
  Stream stream{source, source.clone(), nullptr, 0, {}, {}};
  const auto state = state_of(source);
  const bool goes_on = last.left.defined() && state.equal(last.left);
  if (goes_on) stream.previous = last.tape.lock();
  if (stream.previous) {
    stream.previous_stream = last.stream;
  } else {
    stream.states.push_back(goes_on && last.end.defined() ? last.end : state);
  }
  last = {weak_from_this(), streams_.size(), goes_on ? state : move_on(source), {}};
  streams_.push_back(std::move(stream));
  return streams_.size() - 1;
}

// Makes the states before and after the first `draws` draws known.
void Tape::catch_up(Stream& stream, std::size_t draws) {
  if (stream.states.empty()) {
    const std::lock_guard lock(stream.previous->mutex_);
    auto& previous = stream.previous->streams_[stream.previous_stream];
    stream.previous->catch_up(previous, previous.draws.size());
    stream.states.push_back(previous.states.back());
  }
  while (stream.states.size() <= draws) {
    std::set<std::size_t> needed;
    need(stream.draws[stream.states.size() - 1], needed);
    Values scratch;
    play(needed, scratch);
  }
}

void Tape::draw(const Entry& entry, torch::jit::Stack& stack) {
  auto& stream = streams_[entry.draw->stream];
  catch_up(stream, entry.draw->place);
  stream.own.set_state(stream.states[entry.draw->place]);
  if (const auto place = entry.op->schema().argumentIndexWithName("generator")) {
    stack[static_cast<std::size_t>(*place)] = stream.own;
    entry.op->callBoxed(stack);
  } else {  // Draws from the shared default generator; one tape at a time borrows it.
    static std::mutex lent;
    const std::lock_guard lock(lent);
    const auto& shared = at::detail::getDefaultCPUGenerator();
    const auto before = state_of(shared);
    set_state(shared, stream.own.get_state());
    try {
      entry.op->callBoxed(stack);
    } catch (...) {
      set_state(shared, before);
      throw;
    }
    stream.own.set_state(state_of(shared));
    set_state(shared, before);
  }
  if (stream.states.size() == entry.draw->place + 1)
    stream.states.push_back(stream.own.get_state());
}

}  // namespace accelerate::compat
