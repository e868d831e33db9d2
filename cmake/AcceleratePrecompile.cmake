# accelerate_precompile_headers(target): compiles the headers of Accelerate and LibTorch once for a
# program, so that an edit of its sources does not compile them again. Call it after
# target_link_libraries(), which says whether the program has the Trainer.
function(accelerate_precompile_headers target)
  set(_front_door accelerate)
  get_target_property(_linked ${target} LINK_LIBRARIES)
  if("Accelerate::transformers" IN_LIST _linked)
    set(_front_door trainer)
  endif()
  target_precompile_headers(${target} PRIVATE <torch/torch.h> <accelerate/${_front_door}.h>)
endfunction()
