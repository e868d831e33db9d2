// The names of situations of which docs/errors.md has more to say than a message can. A throw site
// passes one: throw CommError("…", error_name::kRankLate). tools/check_errors.py compares this list,
// the page and the sites. A name is stable: users search for it.
#pragma once

#include "accelerate/base/error.h"

namespace accelerate::error_name {

// The machine.
inline constexpr ErrorName kDiskFull{"accelerate.error/disk-full"};
inline constexpr ErrorName kTooManyOpenFiles{"accelerate.error/too-many-open-files"};
inline constexpr ErrorName kFolderInUse{"accelerate.error/folder-in-use"};
inline constexpr ErrorName kSharedMemoryFull{"accelerate.error/shared-memory-full"};
inline constexpr ErrorName kOutOfMemory{"accelerate.error/out-of-memory"};
inline constexpr ErrorName kNoGpu{"accelerate.error/no-gpu"};
inline constexpr ErrorName kNoNccl{"accelerate.error/no-nccl"};

// Starting programs.
inline constexpr ErrorName kProgramNotFound{"accelerate.error/program-not-found"};
inline constexpr ErrorName kProgramNotExecutable{"accelerate.error/program-not-executable"};
inline constexpr ErrorName kKilledBySignal{"accelerate.error/killed-by-signal"};
inline constexpr ErrorName kLauncherVariables{"accelerate.error/launcher-variables"};
inline constexpr ErrorName kPortTaken{"accelerate.error/port-taken"};
inline constexpr ErrorName kMachinesDoNotMeet{"accelerate.error/machines-do-not-meet"};
inline constexpr ErrorName kMachinesDiffer{"accelerate.error/machines-differ"};
inline constexpr ErrorName kRanksDoNotMeet{"accelerate.error/ranks-do-not-meet"};
inline constexpr ErrorName kMachineLost{"accelerate.error/machine-lost"};
inline constexpr ErrorName kTokenDiffers{"accelerate.error/token-differs"};

// Settings.
inline constexpr ErrorName kUnknownKey{"accelerate.error/unknown-key"};
inline constexpr ErrorName kDeepspeedContradiction{"accelerate.error/deepspeed-contradiction"};
inline constexpr ErrorName kDeepspeedKey{"accelerate.error/deepspeed-key"};

// Ranks.
inline constexpr ErrorName kRankLate{"accelerate.error/rank-late"};
inline constexpr ErrorName kRankLost{"accelerate.error/rank-lost"};
inline constexpr ErrorName kDifferentCollectives{"accelerate.error/different-collectives"};
inline constexpr ErrorName kDifferentShapes{"accelerate.error/different-shapes"};
inline constexpr ErrorName kSettingsDiffer{"accelerate.error/settings-differ"};
inline constexpr ErrorName kDifferentLibtorch{"accelerate.error/different-libtorch"};
inline constexpr ErrorName kStandsStill{"accelerate.error/stands-still"};
inline constexpr ErrorName kProcessForked{"accelerate.error/process-forked"};

// Training.
inline constexpr ErrorName kNotPrepared{"accelerate.error/not-prepared"};
inline constexpr ErrorName kUnevenBatches{"accelerate.error/uneven-batches"};
inline constexpr ErrorName kMixedPrecision{"accelerate.error/mixed-precision"};
inline constexpr ErrorName kGradientsIncomplete{"accelerate.error/gradients-incomplete"};
inline constexpr ErrorName kGradientAccumulation{"accelerate.error/gradient-accumulation"};

// Data.
inline constexpr ErrorName kSampleFailed{"accelerate.error/sample-failed"};
inline constexpr ErrorName kRaggedBatch{"accelerate.error/ragged-batch"};
inline constexpr ErrorName kNoLength{"accelerate.error/no-length"};

// Checkpoints and weights.
inline constexpr ErrorName kCheckpointDamaged{"accelerate.error/checkpoint-damaged"};
inline constexpr ErrorName kWeightsDamaged{"accelerate.error/weights-damaged"};
inline constexpr ErrorName kCheckpointUnfinished{"accelerate.error/checkpoint-unfinished"};
inline constexpr ErrorName kNoCheckpoint{"accelerate.error/no-checkpoint"};
inline constexpr ErrorName kEarlierRun{"accelerate.error/earlier-run"};
inline constexpr ErrorName kOtherWorldSize{"accelerate.error/other-world-size"};
inline constexpr ErrorName kOtherModel{"accelerate.error/other-model"};
inline constexpr ErrorName kOtherOptimizer{"accelerate.error/other-optimizer"};
inline constexpr ErrorName kOtherObjects{"accelerate.error/other-objects"};
inline constexpr ErrorName kPickleRefused{"accelerate.error/pickle-refused"};

// Models, tokenizers and the hub.
inline constexpr ErrorName kUnknownArchitecture{"accelerate.error/unknown-architecture"};
inline constexpr ErrorName kUnknownTokenizer{"accelerate.error/unknown-tokenizer"};
inline constexpr ErrorName kHubToken{"accelerate.error/hub-token"};
inline constexpr ErrorName kHubGated{"accelerate.error/hub-gated"};
inline constexpr ErrorName kHubNotFound{"accelerate.error/hub-not-found"};
inline constexpr ErrorName kHubBusy{"accelerate.error/hub-busy"};
inline constexpr ErrorName kHubOffline{"accelerate.error/hub-offline"};
inline constexpr ErrorName kDownloadDamaged{"accelerate.error/download-damaged"};
inline constexpr ErrorName kNotInCache{"accelerate.error/not-in-cache"};
inline constexpr ErrorName kHubUnreachable{"accelerate.error/hub-unreachable"};

}  // namespace accelerate::error_name
