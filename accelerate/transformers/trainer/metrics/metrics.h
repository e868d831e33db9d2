// All built-in metrics.
#pragma once

#include "accelerate/transformers/trainer/metrics/classification.h"  // IWYU pragma: export
#include "accelerate/transformers/trainer/metrics/correlation.h"     // IWYU pragma: export
#include "accelerate/transformers/trainer/metrics/metric.h"          // IWYU pragma: export
#include "accelerate/transformers/trainer/metrics/perplexity.h"      // IWYU pragma: export
#include "accelerate/transformers/trainer/metrics/seqeval.h"         // IWYU pragma: export
