# accelerate_precompile_headers(target): compiles the headers of Accelerate and LibTorch once for a
# program, so that an edit of its sources does not compile them again. Call it after
# target_link_libraries(), which says whether the program has the Trainer.
function(accelerate_precompile_headers target)
  set(_headers <torch/torch.h> <accelerate/accelerate.h>)
  get_target_property(_linked ${target} LINK_LIBRARIES)
  if("Accelerate::transformers" IN_LIST _linked)
    list(APPEND _headers <accelerate/trainer.h>)
  endif()
  target_precompile_headers(${target} PRIVATE ${_headers})
endfunction()
