// The front door of Accelerate::transformers: accelerate.h, and the hub, tokenizers, datasets,
// models and the Trainer.
#pragma once

#include "accelerate/accelerate.h"
#include "accelerate/datasets/collators/data_collators.h"
#include "accelerate/datasets/iterable_dataset.h"
#include "accelerate/hub/account.h"
#include "accelerate/hub/download.h"
#include "accelerate/hub/hub_error.h"
#include "accelerate/hub/model_card.h"
#include "accelerate/hub/upload.h"
#include "accelerate/models/architectures/text_model.h"
#include "accelerate/models/label_smoother.h"
#include "accelerate/trainer.h"
