#include "accelerate/comm/common_terms.h"

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/diagnosis.h"

namespace accelerate::detail {
namespace {

// What a rank says of itself: lines, after those of its process card.
struct Terms {
  std::string wish, build, address, card;

  [[nodiscard]] std::string lines() const { return join({wish, build, address}, "\n"); }
};

std::string take_line(std::string_view& text) {
  const auto end = text.find('\n');
  std::string line(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Text in a store is not trusted.
Terms terms_in(std::string_view text, int rank) {
  Terms terms;
  for (const char* end : {"\n", "\n", ""}) terms.card += take_line(text) + end;
  terms.wish = take_line(text);
  terms.build = untrusted_text(take_line(text));
  terms.address = untrusted_text(take_line(text));
  if (terms.wish == "nothing" || terms.wish == "'gloo'" || terms.wish == "'shared_memory'")
    return terms;
  throw CommError("the job's store says that rank " + std::to_string(rank) +
                  " asks for the backend " + untrusted_text(terms.wish) +
                  ", which no rank can ask for. Does another program write to the store?");
}

std::string name_of(int rank, const Terms& terms) {
  const std::string process = terms.card.empty() ? "" : describe_process(terms.card);
  const std::string at = terms.address.empty() ? "" : "at " + terms.address;
  return "rank " + std::to_string(rank) + " (" +
         join(process.empty() ? std::vector{at} : std::vector{process, at}, ", ") + ")";
}

// Throws ConfigError if the terms of a rank differ from those of rank 0.
void compare_terms(const std::vector<std::string>& notes) {
  const Terms first = terms_in(notes.front(), 0);
  for (int rank = 1; rank < static_cast<int>(notes.size()); ++rank) {
    const Terms theirs = terms_in(notes[static_cast<std::size_t>(rank)], rank);
    if (theirs.build != first.build) {
      throw ConfigError(name_of(0, first) + " runs with " + first.build + ", and " +
                            name_of(rank, theirs) + " with " +
                            (theirs.build.empty() ? "another version" : theirs.build) +
                            ". All ranks need the same version: install it on all machines.",
                        error_name::kDifferentLibtorch);
    }
    if (theirs.wish == first.wish) continue;
    throw ConfigError("ACCELERATE_COMM asks for " + first.wish + " on rank 0 and for " +
                          theirs.wish + " on rank " + std::to_string(rank) +
                          "; all ranks need the same",
                      error_name::kSettingsDiffer);
  }
}

}  // namespace

std::string own_build() {
  return "LibTorch " TORCH_VERSION;
}

void refuse_on_all_ranks(const c10::intrusive_ptr<c10d::Store>& store,
                         const SelectionOptions& options, const std::string& reason,
                         ErrorName name) {
  GroupDiagnosis(store, options.rank, options.size, options.times.timeout).let_all_find_out();
  throw ConfigError(reason, name);
}

void require_common_terms(const c10::intrusive_ptr<c10d::Store>& store,
                          const SelectionOptions& options) {
  const Terms mine{.wish = options.wish.empty() ? "nothing" : "'" + options.wish + "'",
                   .build = options.build.empty() ? own_build() : options.build,
                   .address = options.address,
                   .card = {}};
  GroupDiagnosis group(store, options.rank, options.size, options.times.timeout);
  try {
    group.wait_for_everyone_to_join(options.times.meeting, {}, {mine.lines(), compare_terms});
  } catch (const ConfigError&) {
    group.let_all_find_out();
    throw;
  }
}

}  // namespace accelerate::detail
