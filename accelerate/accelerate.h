// The front door: everything a training program needs.
#pragma once

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/accelerator/batch_size_finder.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/progress_bar.h"
#include "accelerate/comm/objects.h"
#include "accelerate/data/data_loader.h"
#include "accelerate/tensor/nested_operations.h"
#include "accelerate/optim/get_scheduler.h"
#include "accelerate/optim/schedules/one_cycle_lr.h"
#include "accelerate/optim/schedules/sequential_lr.h"
#include "accelerate/optim/schedules/step_schedules.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/tracking/memory.h"
