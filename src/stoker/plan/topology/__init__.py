"""How the parts of a server hang together, and what flows between them.

| Module | Does |
|---|---|
| `model` | the server: uplinks of its processors, what hangs on them, links between GPUs |
| `read` | a server from its file, with every mistake in a sentence; the servers that come with stoker |
| `smi` | a server from what `nvidia-smi topo -m` prints |
| `rates` | what a PCIe slot, an NVLink, a socket link reaches, from the tables |
| `paths` | the path of each pair of GPUs, and its rate alone and while all talk |
| `network` | which network port belongs to which GPU, and the rate of each |
| `checks` | what is badly placed or shared |
| `storage` | data rate, and the three tiers that hold the data |
| `plan` | all of it together |
| `describe` | as text |
"""
