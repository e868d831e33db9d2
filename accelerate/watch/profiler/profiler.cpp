#include "accelerate/watch/profiler/profiler.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <fstream>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"

// From torch/csrc/profiler/kineto_shim.h, which needs a folder that is not on the include path.
namespace torch::autograd::profiler {
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}

// From libkineto.h: lets Kineto's log on standard error show errors only.
extern "C" void suppressLibkinetoLogMessages();

namespace accelerate {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

// Kineto records for the whole process.
std::atomic<bool> profiler_is_running = false;

std::set<ActivityType> activities_of(const ProfileKwargs& kwargs) {
  std::set<ActivityType> activities;
  if (!kwargs.activities) {
    activities.insert(ActivityType::CPU);
    if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
    return activities;
  }
  for (const auto activity : *kwargs.activities) {
    if (activity == ProfilerActivity::cuda && !at::hasCUDA()) {
      throw UsageError("profile: activities name cuda, but LibTorch sees no GPU; cpu is allowed");
    }
    activities.insert(activity == ProfilerActivity::cuda ? ActivityType::CUDA : ActivityType::CPU);
  }
  if (activities.empty()) {
    throw UsageError("profile: activities are empty; cpu, cuda or both are allowed");
  }
  return activities;
}

std::string shapes_text(const kineto::KinetoEvent& event) {
  if (!event.hasShapes()) return "";
  std::string text;
  for (const auto& shape : event.shapes()) {
    text += (text.empty() ? "[" : ", [");
    for (std::size_t i = 0; i < shape.size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    text += "]";
  }
  return "[" + text + "]";
}

// Sums kernel times by the host operator that started the kernels.
std::unordered_map<std::uint64_t, std::int64_t> device_times(const kineto::ProfilerResult& result) {
  std::unordered_map<std::uint64_t, std::int64_t> times;
  for (const auto& event : result.events()) {
    if (event.deviceType() != c10::DeviceType::CPU && event.linkedCorrelationId() != 0)
      times[event.linkedCorrelationId()] += static_cast<std::int64_t>(event.durationNs());
  }
  return times;
}

std::vector<detail::TraceEvent> host_events(const kineto::ProfilerResult& result) {
  const auto on_device = device_times(result);
  std::vector<detail::TraceEvent> events;
  for (const auto& event : result.events()) {
    const bool memory = event.name() == "[memory]";
    if (!memory && (event.deviceType() != c10::DeviceType::CPU || event.isAsync())) continue;
    const auto start = static_cast<std::int64_t>(event.startNs());
    detail::TraceEvent one{memory ? "" : event.name(),
                           shapes_text(event),
                           event.startThreadId(),
                           start,
                           memory ? start : static_cast<std::int64_t>(event.endNs()),
                           memory ? event.nBytes() : 0,
                           static_cast<std::int64_t>(event.flops()),
                           0};
    if (const auto found = on_device.find(event.correlationId()); found != on_device.end())
      one.device_ns = found->second;
    events.push_back(std::move(one));
  }
  return events;
}

// Returns what `call` throws, or null.
template <typename Call>
std::exception_ptr failure_of(Call&& call) {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// Checks now that the folder is writable, instead of failing after the training.
void need_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return;
  throw Error("profile: traces cannot be written to output_trace_dir '" + folder.string() +
              "': " + error.message() + "; choose another folder");
}

// Kineto writes what it can and reports nothing. A whole trace ends with a brace.
bool is_whole(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : 0;
  constexpr std::streamoff kTail = 16;
  std::string tail(static_cast<std::size_t>(std::min(size, kTail)), ' ');
  stream.seekg(size - static_cast<std::streamoff>(tail.size()));
  stream.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  const auto last = tail.find_last_not_of(" \r\n\t");
  return last != std::string::npos && tail[last] == '}';
}

}  // namespace

ProfilerAction action_at(const ProfileSchedule& schedule, std::int64_t step) {
  const auto& [wait, warmup, active, repeat, skip_first, skip_first_wait] = schedule;
  if (wait < 0 || warmup < 0 || active <= 0 || repeat < 0 || skip_first < 0 || step < 0) {
    throw UsageError(
        "profile: schedule_option {.wait = " + std::to_string(wait) +
        ", .warmup = " + std::to_string(warmup) + ", .active = " + std::to_string(active) +
        ", .repeat = " + std::to_string(repeat) + ", .skip_first = " + std::to_string(skip_first) +
        "} at step " + std::to_string(step) + ": active must be 1 or more, the others 0 or more");
  }
  if (step < skip_first) return ProfilerAction::none;
  const std::int64_t cycle = wait + warmup + active;
  const std::int64_t place = step - skip_first + (skip_first_wait ? wait : 0);
  if (repeat > 0 && place / cycle >= repeat) return ProfilerAction::none;
  const std::int64_t in_cycle = place % cycle;
  if (in_cycle < wait) return ProfilerAction::none;
  if (in_cycle < wait + warmup) return ProfilerAction::warmup;
  return in_cycle < cycle - 1 ? ProfilerAction::record : ProfilerAction::record_and_save;
}

struct ProfileTrace::Impl {
  std::unique_ptr<kineto::ProfilerResult> result;
  std::int64_t cycle = 0;
  std::int64_t step = 0;
  std::filesystem::path saved = {};  // Kineto writes a trace only once; later files are copies.
};

ProfileTrace::ProfileTrace(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProfileTrace::~ProfileTrace() = default;
ProfileTrace::ProfileTrace(ProfileTrace&&) noexcept = default;
ProfileTrace& ProfileTrace::operator=(ProfileTrace&&) noexcept = default;

std::int64_t ProfileTrace::cycle() const {
  return impl_->cycle;
}

std::int64_t ProfileTrace::step() const {
  return impl_->step;
}

void ProfileTrace::export_chrome_trace(const std::filesystem::path& file) {
  auto unfinished = file;
  unfinished += ".unfinished-" + std::to_string(getpid());
  try {
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    if (!impl_->saved.empty()) {
      std::filesystem::copy_file(impl_->saved, unfinished);
    } else {
      impl_->result->save(unfinished.string());
    }
    if (!is_whole(unfinished)) throw Error("the file was not written to its end");
    std::filesystem::rename(unfinished, file);
    impl_->saved = file;
  } catch (const std::exception&) {
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    throw_with_context<Error>("the trace cannot be written to " + file.string() +
                              ": may the folder be written to, and has its disk room?");
  }
}

std::vector<OperatorStats> ProfileTrace::key_averages(bool group_by_input_shape) const {
  return detail::average_by_key(host_events(*impl_->result), group_by_input_shape);
}

struct Profiler::Impl {
  Impl(ProfileKwargs profile_kwargs, std::shared_ptr<Communicator> group)
      : kwargs(std::move(profile_kwargs)),
        communicator(std::move(group)),
        activities(activities_of(kwargs)) {
    (void)action_of(0);  // Refuses a bad schedule.
    if (kwargs.output_trace_dir) need_folder(*kwargs.output_trace_dir);
    if (!env("KINETO_LOG_LEVEL")) suppressLibkinetoLogMessages();
    if (profiler_is_running.exchange(true)) {
      throw UsageError(
          "profile: a profiler is running in this process already, and there can be one: end its "
          "scope first");
    }
  }
  ~Impl() {
    if (!stopped) profiler_is_running = false;
  }

  [[nodiscard]] ProfilerAction action_of(std::int64_t number) const {
    return kwargs.schedule_option ? action_at(*kwargs.schedule_option, number)
                                  : ProfilerAction::record;
  }

  [[nodiscard]] ProfilerConfig config() const {
    return ProfilerConfig(ProfilerState::KINETO, kwargs.record_shapes, kwargs.profile_memory,
                          kwargs.with_stack, kwargs.with_flops, kwargs.with_modules);
  }

  void prepare() {
    kineto::prepareProfiler(config(), activities);
    prepared = true;
  }

  void record() {
    if (!prepared) prepare();
    kineto::enableProfiler(config(), activities);
    recording = true;
    kineto::addMetadataJson("distributedInfo",
                            R"({"backend": ")" + std::string(communicator->backend()) +
                                R"(", "rank": )" + std::to_string(communicator->rank()) +
                                R"(, "world_size": )" + std::to_string(communicator->size()) + "}");
  }

  // Marks the step, under the name that PyTorch's tools look for.
  void mark_step() {
    mark.emplace(at::RecordScope::USER_SCOPE);
    if (mark->isActive()) mark->before("ProfilerStep#" + std::to_string(number));
  }

  std::unique_ptr<kineto::ProfilerResult> end_recording() {
    mark.reset();
    recording = prepared = false;
    return kineto::disableProfiler();
  }

  // Begins `action`.
  void begin(ProfilerAction action) {
    if (action == ProfilerAction::warmup && !prepared) prepare();
    const bool to_record =
        action == ProfilerAction::record || action == ProfilerAction::record_and_save;
    if (to_record && !recording) record();
    if (recording) mark_step();
  }

  void finish_trace() {
    auto impl =
        std::make_unique<ProfileTrace::Impl>(ProfileTrace::Impl{end_recording(), cycles++, number});
    trace.emplace(std::move(impl));
    if (kwargs.output_trace_dir) trace->export_chrome_trace(file_of(trace->cycle()));
    if (kwargs.on_trace_ready) kwargs.on_trace_ready(*trace);
  }

  [[nodiscard]] std::filesystem::path file_of(std::int64_t cycle) const {
    const std::string name = "profile_" + std::to_string(communicator->rank());
    return *kwargs.output_trace_dir /
           (cycle == 0 ? name + ".json" : name + "." + std::to_string(cycle) + ".json");
  }

  // If a trace fails, the schedule still advances: the next cycle may succeed.
  void step() {
    const bool ends_cycle = action_of(number) == ProfilerAction::record_and_save;
    mark.reset();
    const auto failure = ends_cycle ? failure_of([this] { finish_trace(); }) : nullptr;
    ++number;
    begin(action_of(number));
    if (failure) std::rethrow_exception(failure);
  }

  void stop() {
    stopped = true;
    const auto free_at_end = c10::make_scope_exit([] { profiler_is_running = false; });
    if (recording) {
      finish_trace();
    } else if (prepared) {  // During a warm-up: Kineto must be started to be ended.
      record();
      (void)end_recording();
    }
  }

  ProfileKwargs kwargs;
  std::shared_ptr<Communicator> communicator;
  std::set<ActivityType> activities;
  std::optional<at::RecordFunction> mark;
  std::optional<ProfileTrace> trace;
  std::int64_t number = 0;  // Of the step.
  std::int64_t cycles = 0;
  bool prepared = false;
  bool recording = false;
  bool stopped = false;
  int exceptions = std::uncaught_exceptions();
};

Profiler::Profiler(ProfileKwargs kwargs, std::shared_ptr<Communicator> communicator)
    : impl_(std::make_unique<Impl>(std::move(kwargs), std::move(communicator))) {
  impl_->begin(impl_->action_of(0));
}

Profiler::~Profiler() noexcept(false) {
  if (std::uncaught_exceptions() == impl_->exceptions) {
    stop();
    return;
  }
  try {
    if (!impl_->stopped) impl_->stop();
  } catch (const std::exception& error) {
    get_logger("accelerate.profile").warning(describe(error), {.main_process_only = false});
  }
}

void Profiler::step() {
  if (impl_->stopped) throw UsageError("profile: step() was called after stop()");
  impl_->step();
}

void Profiler::stop() {
  if (impl_->stopped) return;
  const auto failure = failure_of([this] { impl_->stop(); });
  // The other ranks wait here, too, even if this rank could not write.
  if (impl_->kwargs.output_trace_dir) impl_->communicator->barrier();
  if (failure) std::rethrow_exception(failure);
}

ProfileTrace& Profiler::trace() const {
  if (impl_->trace) return *impl_->trace;
  throw UsageError(
      "profile: there is no finished trace yet; call stop(), or step() until the schedule has "
      "ended a cycle");
}

}  // namespace accelerate
