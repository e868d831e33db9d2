#!/usr/bin/env python3
"""Writes launch_env_golden.json: what Python Accelerate's launcher exports, by its own functions.

Three parts: `flags`, its argument parser as a table; `rows`, for a flag list, a configuration file and a number
of GPUs the variables its launcher sets; `workers`, the environment of two real workers under its torchrun.

  python tests/reference/launch_env_golden.py [output.json]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

BASE = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
os.environ.clear()
os.environ.update(BASE)

import torch  # noqa: E402
from accelerate.commands import launch as upstream  # noqa: E402
from accelerate.utils import launch as exports  # noqa: E402

CORES = 8
MULTI = ["--multi_gpu", "--num_processes", "4"]
FSDP = ["--use_fsdp", "--num_processes", "2"]
DEEPSPEED = ["--use_deepspeed", "--num_processes", "2"]
MEGATRON = ["--use_megatron_lm", "--num_processes", "2"]
FLOOR = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch_policy: BACKWARD_PRE
  fsdp_cpu_ram_efficient_loading: true
  fsdp_forward_prefetch: false
  fsdp_offload_params: false
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_sync_module_states: true
  fsdp_transformer_layer_cls_to_wrap: BertLayer
  fsdp_use_orig_params: true
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""
COMMON = "compute_environment: LOCAL_MACHINE\nmachine_rank: 0\nnum_machines: 1\nuse_cpu: {cpu}\ndebug: {debug}\n"
GPU_FILE = COMMON.format(cpu="false", debug="true") + """\
distributed_type: MULTI_GPU
gpu_ids: 0,2
mixed_precision: fp16
num_processes: 2
main_process_port: 31234
dynamo_config:
  dynamo_backend: INDUCTOR
  dynamo_mode: reduce-overhead
  dynamo_use_dynamic: true
  dynamo_use_fullgraph: false
"""
CPU_FILE = COMMON.format(cpu="true", debug="false") + """\
distributed_type: 'NO'
mixed_precision: 'no'
num_processes: 1
"""
DEEPSPEED_FILE = COMMON.format(cpu="false", debug="false") + """\
deepspeed_config:
  gradient_accumulation_steps: 4
  gradient_clipping: 0.5
  offload_optimizer_device: CPU
  offload_param_device: none
  zero3_init_flag: true
  zero3_save_16bit_model: false
  zero_stage: 3
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 2
"""
MEGATRON_FILE = COMMON.format(cpu="false", debug="false") + """\
distributed_type: MEGATRON_LM
megatron_lm_config:
  megatron_lm_gradient_clipping: 1.0
  megatron_lm_num_micro_batches: 2
  megatron_lm_pp_degree: 2
  megatron_lm_recompute_activations: true
  megatron_lm_sequence_parallelism: false
  megatron_lm_tp_degree: 2
  megatron_lm_use_distributed_optimizer: true
mixed_precision: bf16
num_processes: 4
"""
PARALLELISM_FILE = COMMON.format(cpu="false", debug="false") + """\
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
mixed_precision: bf16
num_processes: 8
parallelism_config:
  parallelism_config_cp_comm_strategy: alltoall
  parallelism_config_cp_size: 2
  parallelism_config_dp_replicate_size: 1
  parallelism_config_dp_shard_size: 2
  parallelism_config_tp_size: 2
"""
FP8_FILE = COMMON.format(cpu="false", debug="false") + """\
distributed_type: MULTI_GPU
fp8_config:
  fp8_backend: TE
  fp8_format: E4M3
  fp8_margin: 2
  fp8_interval: 3
mixed_precision: fp8
num_processes: 2
"""

# Every key of fsdp_config, each in a file that says nothing else of FSDP, and words that a file may hold for it.
FSDP_KEYS = [
    ("fsdp_version", [1, 2]),
    ("fsdp_sharding_strategy", ["SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"]),
    ("fsdp_reshard_after_forward", ["true", "false", "FULL_SHARD", "SHARD_GRAD_OP"]),
    ("fsdp_offload_params", ["true", "false"]),
    ("fsdp_auto_wrap_policy", ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"]),
    ("fsdp_transformer_layer_cls_to_wrap", ["BertLayer", "BertLayer,GPT2Block"]),
    ("fsdp_min_num_params", [0, 2000]),
    ("fsdp_backward_prefetch", ["BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"]),
    ("fsdp_state_dict_type", ["FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"]),
    ("fsdp_forward_prefetch", ["true", "false"]),
    ("fsdp_use_orig_params", ["true", "false"]),
    ("fsdp_cpu_ram_efficient_loading", ["true", "false"]),
    ("fsdp_sync_module_states", ["true"]),
    ("fsdp_activation_checkpointing", ["true", "false"]),
    ("fsdp_activation_checkpointing_offload", ["true", "false"]),
    ("fsdp_ignored_modules", ["head", "encoder.layer.[01]"]),
]
FSDP_FILE = COMMON.format(cpu="false", debug="false") + """\
distributed_type: FSDP
fsdp_config:
  {key}: {value}
mixed_precision: bf16
num_processes: 2
"""

# name, flags, configuration file, GPUs
CASES = [
    ("nothing said, one GPU", [], None, 1),
    ("nothing said, two GPUs", [], None, 2),
    ("cpu, one process", ["--cpu", "--num_processes", "1"], None, 0),
    ("cpu, four processes", ["--cpu", "--num_processes", "4"], None, 0),
    ("cpu, more processes than cores", ["--cpu", "--num_processes", "16"], None, 0),
    ("cpu, threads given", ["--cpu", "--num_processes", "2", "--num_cpu_threads_per_process", "3"], None, 0),
    ("cpu, bf16, debug", ["--cpu", "--num_processes", "2", "--mixed_precision", "bf16", "--debug"], None, 0),
    ("one process, one of the GPUs", ["--num_processes", "1", "--gpu_ids", "1"], None, 2),
    ("hyphens and equal signs", ["--num-processes=1", "--mixed-precision=fp16", "--gpu-ids=0"], None, 1),
    ("multi gpu", MULTI, None, 4),
    ("multi gpu, ids, affinity", MULTI + ["--gpu_ids", "0,1,2,3", "--enable_cpu_affinity"], None, 8),
    ("multi gpu, dynamo", MULTI + ["--dynamo_backend", "inductor", "--dynamo_mode", "max-autotune",
                                  "--dynamo_use_fullgraph", "--dynamo_use_dynamic",
                                  "--dynamo_use_regional_compilation"], None, 4),
    ("multi gpu, debug, fp16", MULTI + ["--debug", "--mixed_precision", "fp16"], None, 4),
    ("fsdp", FSDP, None, 2),
    ("fsdp, every flag", FSDP + [
        "--fsdp_version", "2", "--fsdp_sharding_strategy", "SHARD_GRAD_OP", "--fsdp_reshard_after_forward", "False",
        "--fsdp_offload_params", "True", "--fsdp_auto_wrap_policy", "SIZE_BASED_WRAP",
        "--fsdp_transformer_layer_cls_to_wrap", "BertLayer,GPT2Block", "--fsdp_min_num_params", "2000",
        "--fsdp_backward_prefetch", "BACKWARD_POST", "--fsdp_state_dict_type", "FULL_STATE_DICT",
        "--fsdp_forward_prefetch", "true", "--fsdp_use_orig_params", "false",
        "--fsdp_cpu_ram_efficient_loading", "true", "--fsdp_sync_module_states", "TRUE",
        "--fsdp_activation_checkpointing", "true", "--fsdp_activation_checkpointing_offload", "true"], None, 2),
    ("fsdp, parallelism", FSDP + [
        "--fsdp_version", "2", "--use_parallelism_config", "--parallelism_config_dp_shard_size", "2",
        "--parallelism_config_sp_size", "2"], None, 2),
    ("fsdp, parallelism, every flag", FSDP + [
        "--fsdp_version", "2", "--use_parallelism_config", "--parallelism_config_dp_replicate_size", "2",
        "--parallelism_config_dp_shard_size", "2", "--parallelism_config_tp_size", "2",
        "--parallelism_config_cp_size", "2", "--parallelism_config_cp_backend", "torch",
        "--parallelism_config_cp_comm_strategy", "alltoall", "--parallelism_config_sp_size", "2",
        "--parallelism_config_sp_backend", "deepspeed", "--parallelism_config_sp_seq_length", "128",
        "--parallelism_config_sp_attn_implementation", "flash_attention_2"], None, 2),
    ("deepspeed", DEEPSPEED, None, 2),
    ("deepspeed, every flag", DEEPSPEED + [
        "--deepspeed_config_file", "zero.json", "--zero_stage", "3", "--offload_optimizer_device", "CPU",
        "--offload_param_device", "nvme", "--gradient_accumulation_steps", "8", "--gradient_clipping", "1",
        "--zero3_init_flag", "True", "--zero3_save_16bit_model", "false",
        "--deepspeed_moe_layer_cls_names", "MixtralSparseMoeBlock", "--enable_cpu_affinity", "--debug"], None, 2),
    ("megatron", MEGATRON, None, 2),
    ("megatron, words and numbers", MEGATRON + [
        "--megatron_lm_tp_degree", "2", "--megatron_lm_pp_degree", "4", "--megatron_lm_num_micro_batches", "3",
        "--megatron_lm_sequence_parallelism", "true", "--megatron_lm_recompute_activations", "false",
        "--megatron_lm_use_distributed_optimizer", "true", "--megatron_lm_gradient_clipping", "0.25",
        "--megatron_lm_recompute_granularity", "full", "--megatron_lm_recompute_method", "uniform",
        "--megatron_lm_recompute_num_layers", "1", "--megatron_lm_attention_backend", "flash",
        "--megatron_lm_expert_model_parallel_size", "2", "--megatron_lm_context_parallel_size", "2",
        "--megatron_lm_attention_dropout", "1e-5", "--megatron_lm_hidden_dropout", "0",
        "--megatron_lm_attention_softmax_in_fp32", "true", "--megatron_lm_expert_tensor_parallel_size", "1",
        "--megatron_lm_calculate_per_token_loss", "true", "--megatron_lm_use_rotary_position_embeddings", "true",
        "--megatron_lm_decoder_last_pipeline_num_layers", "3", "--megatron_lm_no_load_optim", "true",
        "--megatron_lm_use_custom_fsdp", "true"], None, 8),
    ("fp8", MULTI + ["--mixed_precision", "fp8"], None, 4),
    ("fp8, every flag", MULTI + [
        "--mixed_precision", "fp8", "--fp8_backend", "te", "--fp8_use_autocast_during_eval", "--fp8_margin", "1",
        "--fp8_interval", "2", "--fp8_format", "E5M2", "--fp8_amax_history_len", "16", "--fp8_amax_compute_algo",
        "max", "--fp8_override_linear_precision", "true,false,true", "--fp8_opt_level", "O1",
        "--fp8_enable_fsdp_float8_all_gather", "false", "--fp8_pad_inner_dim", "no"], None, 4),
    ("file: FSDP", [], FLOOR, 2),
    ("file: FSDP, command line wins", ["--mixed_precision", "fp16", "--fsdp_state_dict_type", "FULL_STATE_DICT",
                                      "--num_processes", "4"], FLOOR, 4),
    ("file: GPUs", [], GPU_FILE, 4),
    ("file: GPUs, command line wins", ["--gpu_ids", "1,3", "--dynamo_backend", "eager"], GPU_FILE, 4),
    ("file: CPU", [], CPU_FILE, 0),
    ("file: CPU, more processes", ["--num_processes", "2"], CPU_FILE, 0),
    ("file: DeepSpeed", [], DEEPSPEED_FILE, 2),
    ("file: Megatron", [], MEGATRON_FILE, 4),
    ("file: parallelism", [], PARALLELISM_FILE, 8),
    ("file: fp8", [], FP8_FILE, 2),
    *((f"key: {key}: {value}", [], FSDP_FILE.format(key=key, value=value), 2)
      for key, values in FSDP_KEYS for value in values),
]


def exported(args, defaults, from_file):
    """The environment of the launcher that upstream's launch_command would choose."""
    if args.use_deepspeed and not args.cpu:
        fields = list(defaults.deepspeed_config.keys()) if defaults else []
        args.deepspeed_fields_from_accelerate_config = ",".join(fields + (["mixed_precision"] if from_file else []))
        return "deepspeed", exports.prepare_deepspeed_cmd_env(args)[1]
    if (args.use_fsdp or args.use_megatron_lm or args.multi_gpu) and not args.cpu:
        return "torchrun", exports.prepare_multi_gpu_env(args)
    return "simple", exports.prepare_simple_launcher_cmd_env(args)[1]


def run_case(name, flags, config, gpus, folder):
    words = list(flags)
    if config is not None:
        path = pathlib.Path(folder) / "config.yaml"
        path.write_text(config)
        words += ["--config_file", str(path)]
    with mock.patch.object(torch.cuda, "device_count", return_value=gpus), \
            mock.patch.object(torch.cuda, "is_available", return_value=gpus > 0), \
            mock.patch.object(exports, "is_port_in_use", return_value=False), \
            mock.patch.object(exports, "is_fp8_available", return_value=True), \
            mock.patch.object(upstream, "is_bf16_available", return_value=True), \
            mock.patch("psutil.cpu_count", return_value=CORES):
        args = upstream.launch_command_parser().parse_args(words + ["program.py"])
        launcher, environment = exported(*upstream._validate_launch_command(args))
    changed = {k: v.replace(os.getcwd(), "<cwd>") for k, v in environment.items() if BASE.get(k) != v}
    return {"name": name, "flags": flags, "config": config, "gpus": gpus, "cores": CORES, "launcher": launcher,
            "environment": dict(sorted(changed.items()))}


def parser_table():
    rows = []
    for action in upstream.launch_command_parser()._actions:
        if not action.option_strings or action.dest == "help":
            continue
        rows.append({"name": action.option_strings[0].lstrip("-") if action.option_strings[0].startswith("--")
                     else action.option_strings[1].lstrip("-"),
                     "default": None if action.default is None else str(action.default),
                     "choices": list(action.choices) if action.choices else [],
                     "takes_value": action.nargs != 0})
    return rows


def real_workers(folder):
    """The environment of workers under upstream's own torchrun launch; on a machine without GPUs too."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
               "--main_process_port", "0", "--no_python", "sh", "-c", f"env -0 > {folder}/$RANK"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = []
    for rank in range(2):
        text = (pathlib.Path(folder) / str(rank)).read_text()
        pairs = dict(entry.split("=", 1) for entry in text.split("\0") if entry)
        workers.append({k: v for k, v in sorted(pairs.items())
                        if BASE.get(k) != v and k not in ("PWD", "OLDPWD", "_", "SHLVL")})
    return workers


def main():
    here = pathlib.Path(__file__).resolve()
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.with_suffix(".json")
    with tempfile.TemporaryDirectory() as folder:
        golden = {"flags": parser_table(), "rows": [run_case(*case, folder) for case in CASES],
                  "workers": real_workers(folder)}
    for worker in golden["workers"]:  # these differ from run to run
        worker["MASTER_PORT"] = "<port>"
        worker["TORCHELASTIC_ERROR_FILE"] = "<file>"
    output.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(golden['flags'])} flags, {len(golden['rows'])} rows, {len(golden['workers'])} workers")


if __name__ == "__main__":
    main()
