// The front door of Accelerate::transformers: accelerate.h, and the hub, tokenizers, datasets,
// models and the Trainer.
#pragma once

#include "accelerate/accelerate.h"
#include "accelerate/trainer.h"
#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/datasets/iterable_dataset.h"
#include "accelerate/transformers/hub/account.h"
#include "accelerate/transformers/hub/download.h"
#include "accelerate/transformers/hub/hub_error.h"
#include "accelerate/transformers/hub/model_card.h"
#include "accelerate/transformers/hub/upload.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/label_smoother.h"
#include "accelerate/transformers/models/sentence_encoder.h"
