// The front door for programs that train by a Trainer: models, tokenizers, datasets, metrics and
// the Trainer, without the loop of accelerate.h, which such a program does not write.
#pragma once

#include "accelerate/base/run_main.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/dataset_loader.h"
#include "accelerate/transformers/datasets/load_dataset.h"
#include "accelerate/transformers/models/auto_model.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "accelerate/transformers/trainer/callbacks/early_stopping_callback.h"
#include "accelerate/transformers/trainer/callbacks/progress_callback.h"
#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "accelerate/transformers/trainer/trainer.h"
