"""Which module each kind of worker runs, by the name of the kind."""

MODULES = {  # a framework's name: the module that trains with it; other names: other strategies or tasks of its workers
    "torch": "ddlbench.workers.torch.ring_allreduce",
    "torch_parameter_server": "ddlbench.workers.torch.parameter_server",
    "tensorflow": "ddlbench.workers.tensorflow.ring_allreduce",
    "tensorflow_parameter_server": "ddlbench.workers.tensorflow.parameter_server",
    "tensorflow_parameter_server_sync": "ddlbench.workers.tensorflow.parameter_server_sync",
    "horovod_torch": "ddlbench.workers.horovod.torch_worker",
    "horovod_tensorflow": "ddlbench.workers.horovod.tensorflow_worker",
    "mxnet_parameter_server": "ddlbench.workers.mxnet.parameter_server",
    "torch_replay": "ddlbench.workers.torch.replay",
    "torch_parameter_server_replay": "ddlbench.workers.torch.parameter_server_replay",
    "horovod_torch_replay": "ddlbench.workers.horovod.torch_replay",
    "horovod_tensorflow_replay": "ddlbench.workers.horovod.tensorflow_replay",
    "tensorflow_replay": "ddlbench.workers.tensorflow.replay",
    "tensorflow_parameter_server_replay": "ddlbench.workers.tensorflow.parameter_server_replay",
    "tensorflow_parameter_server_sync_replay": "ddlbench.workers.tensorflow.parameter_server_sync_replay",
    "mxnet_parameter_server_replay": "ddlbench.workers.mxnet.parameter_server_replay",
    "torch_collectives": "ddlbench.workers.torch.collectives",
}
