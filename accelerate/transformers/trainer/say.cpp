#include "accelerate/transformers/trainer/say.h"

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate::detail {

void say(const Accelerator& accelerator, std::string_view text) {
  if (accelerator.is_main_process())
    accelerator.print(untrusted_text(text, std::string_view::npos));
}

}  // namespace accelerate::detail
