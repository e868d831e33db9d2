# Writes just enough of a LibTorch into `folder` for the finder to take it for `version`.
function(fake_libtorch folder version)
  file(WRITE "${folder}/include/torch/csrc/api/include/torch/torch.h" "")
  file(WRITE "${folder}/include/torch/headeronly/version.h" "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION \\\n  \"${version}\"\n")
  foreach(library torch torch_cpu c10)
    file(WRITE "${folder}/lib/lib${library}.so" "")
  endforeach()
endfunction()
