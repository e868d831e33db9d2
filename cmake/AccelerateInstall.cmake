# Installs the libraries, headers, the `accelerate` command, and the package that find_package(Accelerate)
# reads. An export set for each library, so that one can be used where what another needs is not there.
include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Accelerate")
set(_installed_folders ${core_folders})

install(TARGETS accelerate_launch EXPORT AccelerateLaunchTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT AccelerateLaunchTargets NAMESPACE Accelerate:: DESTINATION "${_package_dir}")

if(ACCELERATE_BUILD_TOKENIZERS)
  list(APPEND _installed_folders ${text_folders})
  install(TARGETS accelerate_tokenizers EXPORT AccelerateTokenizersTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT AccelerateTokenizersTargets NAMESPACE Accelerate:: DESTINATION "${_package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake" DESTINATION "${_package_dir}")
endif()

if(ACCELERATE_BUILD_LIBRARY)
  list(APPEND _installed_folders ${torch_folders})
  install(TARGETS accelerate EXPORT AccelerateTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT AccelerateTargets NAMESPACE Accelerate:: DESTINATION "${_package_dir}")
  file(WRITE "${PROJECT_BINARY_DIR}/cmake/AccelerateLibTorch.cmake" "set(LibTorch_LAST_RESORT \"${LibTorch_ROOT_DIR}\")\n")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake" "${PROJECT_BINARY_DIR}/cmake/AccelerateLibTorch.cmake"
          DESTINATION "${_package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/accelerate/accelerate.h"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/accelerate" OPTIONAL)
endif()

if(TARGET accelerate_transformers)
  list(APPEND _installed_folders ${transformers_folders})
  install(TARGETS accelerate_transformers EXPORT AccelerateTransformersTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT AccelerateTransformersTargets NAMESPACE Accelerate:: DESTINATION "${_package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/accelerate/transformers.h" "${PROJECT_SOURCE_DIR}/accelerate/trainer.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/accelerate")
endif()

foreach(_plugin accelerate_parquet accelerate_cuda accelerate_encoders accelerate_decoders accelerate_encoder_decoders) # Found beside the library that opens it.
  if(TARGET ${_plugin})
    install(TARGETS ${_plugin} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()

foreach(_folder ${_installed_folders})
  cmake_path(GET _folder PARENT_PATH _room)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/accelerate/${_folder}"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/accelerate/${_room}" OPTIONAL
          # What stands in for Gloo's headers is for one source file of ours, never for users.
          FILES_MATCHING PATTERN "*.h" PATTERN "gloo_headers" EXCLUDE)
endforeach()

if(ACCELERATE_BUILD_CLI)
  install(TARGETS accelerate_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  list(TRANSFORM accelerate_program_links PREPEND "${PROJECT_BINARY_DIR}/bin/" OUTPUT_VARIABLE _links)
  install(FILES ${_links} DESTINATION "${CMAKE_INSTALL_BINDIR}")
  # What shells and man read, by the program that was just installed.
  install(CODE "
    set(program \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/accelerate\")
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    foreach(place bash:bash-completion/completions/accelerate zsh:zsh/site-functions/_accelerate fish:fish/vendor_completions.d/accelerate.fish)
      string(REPLACE : \";\" place \${place})
      list(GET place 0 shell)
      list(GET place 1 file)
      cmake_path(GET file PARENT_PATH folder)
      file(MAKE_DIRECTORY \"\${share}/\${folder}\")
      execute_process(COMMAND \"\${program}\" completion \${shell} OUTPUT_FILE \"\${share}/\${file}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    execute_process(COMMAND \"\${program}\" man --output_dir \"\${share}/man/man1\" COMMAND_ERROR_IS_FATAL ANY)")
  if(TARGET accelerate_torch)
    install(TARGETS accelerate_torch RUNTIME DESTINATION "libexec/accelerate") # Where the command looks for it.
  endif()
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/AccelerateConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cmake/AccelerateConfig.cmake" INSTALL_DESTINATION "${_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/AccelerateConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cmake/AccelerateConfig.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/AcceleratePrecompile.cmake"
              "${PROJECT_BINARY_DIR}/cmake/AccelerateConfigVersion.cmake" DESTINATION "${_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# The pages and examples that messages name.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples"
        PATTERN "__pycache__" EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/README.zh.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
