// Fetches a repository from HF_ENDPOINT and reports how long it took. originals/hub_snapshot.py
// does the same in Python.
//
// usage: bench_hub_snapshot REPO_ID CACHE_DIR
#include "accelerate/transformers/hub/download.h"
#include "benchmarks/programs/measure.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  accelerate::HubOptions options;
  options.cache_dir = argv[2];
  options.show_progress = false;
  const double seconds =
      bench::seconds_of([&] { (void)accelerate::snapshot_download(argv[1], options); });
  bench::report({{"call_seconds", seconds}});
  return 0;
}
