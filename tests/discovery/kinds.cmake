# Sets KIND of a suite, its second label beside the folder's, and COST in seconds, by which ctest starts the long ones first.
#   faults   ranks that are killed, stopped or stuck, and disks that fail
#   memory   what processes take
#   live     comparisons with the Python originals
#   long     what takes more than ten seconds alone: ${long_suites} has how many
#   quick    the rest
set(long_suites
    All/ShardedTraining=30 Engines/CollectiveSuite=60 Rendezvous=30 Places/ShardedHalf=20 Ranks/MetricsOnRanks=14
    Version/Kernels=20 ShardedCheckpoint=24 ForeignWeights=17 ShardedFiles=15 Namespaces=14 Layouts/Hierarchical=13
    All/ShardedBits=11 SaveOnEachNode=10 TrainingReference=10 OneToFour/Ranks=10 Stopped=15)
function(accelerate_kind_of_suite suite kind cost)
  set(found quick)
  set(seconds 1)
  foreach(entry ${long_suites})
    if(entry MATCHES "^(.*)=([0-9]+)$" AND suite STREQUAL CMAKE_MATCH_1)
      set(found long)
      set(seconds ${CMAKE_MATCH_2})
    endif()
  endforeach()
  if(suite MATCHES "Fault|Fail|Kill|Mishap|Crash|Adversar|Lost|Hang")
    set(found faults)
    set(seconds 10)
  elseif(suite MATCHES "Memory(Test)?$|MemoryUse|^Memory")
    set(found memory)
    set(seconds 10)
  elseif(suite MATCHES "Live|Python|Upstream")
    set(found live)
    set(seconds 20)
  endif()
  set(${kind} ${found} PARENT_SCOPE)
  set(${cost} ${seconds} PARENT_SCOPE)
endfunction()
