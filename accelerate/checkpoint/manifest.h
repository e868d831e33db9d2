// The manifest is a format, which the command line reads without LibTorch.
#pragma once

#include "accelerate/formats/manifest.h"
