// The same sizes in forty lines of Python; rank 0 tells the steps and saves, all load.
#include "tests/bench/torchrun.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

namespace troupe::apps::recovery_bench {

namespace {

constexpr const char* script = R"(
import json, os, sys
import torch, torch.nn as nn
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
folder, every, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group('gloo')
rank, epoch = dist.get_rank(), int(os.environ['TORCHELASTIC_RESTART_COUNT']) + 1
torch.manual_seed(0)
text = torch.frombuffer(bytearray(open(folder + '/data.txt', 'rb').read()), dtype=torch.uint8)
T = 64
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(256, 128), nn.Embedding(T, 128)
        block = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True, norm_first=True)
        self.blocks, self.head = nn.TransformerEncoder(block, 4), nn.Linear(128, 256)
        self.mask = torch.full((T, T), float('-inf')).triu(1)
    def forward(self, x):
        h = self.token(x) + self.place(torch.arange(T))
        return self.head(self.blocks(h, self.mask))
net = DistributedDataParallel(Net())
optimizer = torch.optim.AdamW(net.parameters(), 3e-3)
saved, done = folder + '/run/torch.pt', 0
if os.path.exists(saved):
    state = torch.load(saved)
    done = state['step']
    net.load_state_dict(state['net'])
    optimizer.load_state_dict(state['optimizer'])
for step in range(done + 1, steps + 1):
    at = torch.randint(len(text) - T - 1, (16,), generator=torch.Generator().manual_seed(step))
    rows = torch.stack([text[i:i + T + 1] for i in at[rank * 8:rank * 8 + 8]]).long()
    loss = nn.functional.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    both = loss.detach().clone()
    dist.all_reduce(both)
    if rank == 0:
        if step % every == 0:
            os.makedirs(folder + '/run', exist_ok=True)
            with open(saved + '.new', 'wb') as f:
                torch.save({'step': step, 'net': net.state_dict(),
                            'optimizer': optimizer.state_dict()}, f)
                f.flush()
                os.fsync(f.fileno())
            os.rename(saved + '.new', saved)
        print(json.dumps({'type': 'step', 'step': step, 'epoch': epoch, 'loss': both.item()}),
              flush=True)
)";

/// The first in the path may be one without Debian's packages.
result<std::string> python_with_torch() {
  for (const char* python : {"python3", "/usr/bin/python3"})
    if (std::system((std::string(python) + " -c 'import torch.distributed' 2>/dev/null").c_str()) ==
        0)
      return std::string(python);
  return error{errc::unavailable, "no python3 here has torch", "apt-get install python3-torch"};
}

}  // namespace

std::vector<way> rival_ways() {
  const trainer torchrun{
      "torchrun",
      [](const bench_job& job) {
        const auto file = job.folder / "train.py";
        std::ofstream(file) << script;
        const auto python = python_with_torch();
        return std::vector<std::string>{python ? *python : "python3",
                                        "-m",
                                        "torch.distributed.run",
                                        "--standalone",
                                        "--nproc_per_node=2",
                                        "--max_restarts=3",
                                        "--monitor_interval=0.1",
                                        "--redirects=9:1",  // of no rank: 1.13 under Python
                                        "--tee=9:1",        // 3.11 fails over its default, none
                                        file.string(),
                                        job.folder.string(),
                                        std::to_string(job.every_steps),
                                        std::to_string(job.steps)};
      },
      {"RANK=1"},
      "local_rank: ",
      "1",
      false,
      false,
      [] {
        const auto python = python_with_torch();
        return python ? status() : status(python.error());
      }};
  return {{.id = "torchrun",
           .about = "DistributedDataParallel over gloo: torchrun, which looks each 0.1 s, starts "
                    "all ranks again",
           .by = torchrun}};
}

}  // namespace troupe::apps::recovery_bench
