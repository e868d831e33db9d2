// All built-in metrics.
#pragma once

#include "accelerate/trainer/metrics/classification.h"  // IWYU pragma: export
#include "accelerate/trainer/metrics/correlation.h"     // IWYU pragma: export
#include "accelerate/trainer/metrics/metric.h"          // IWYU pragma: export
#include "accelerate/trainer/metrics/perplexity.h"      // IWYU pragma: export
#include "accelerate/trainer/metrics/seqeval.h"         // IWYU pragma: export
