// The front door for programs that train by a Trainer: models, tokenizers, datasets, metrics and
// the Trainer, without the loop of accelerate.h, which such a program does not write.
#pragma once

#include "accelerate/base/run_main.h"
#include "accelerate/datasets/data_loader.h"
#include "accelerate/datasets/dataset.h"
#include "accelerate/datasets/dataset_dict.h"
#include "accelerate/datasets/load_dataset.h"
#include "accelerate/models/auto_model.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/tokenizers/pretrained/pre_trained_tokenizer.h"
#include "accelerate/trainer/arguments/parse_args.h"
#include "accelerate/trainer/callbacks/early_stopping_callback.h"
#include "accelerate/trainer/callbacks/progress_callback.h"
#include "accelerate/trainer/metrics/metrics.h"
#include "accelerate/trainer/trainer.h"
