#!/usr/bin/env python3
"""The job of one cgconform cell in PyTorch, to compare speeds with.

Four encoder layers (hidden 128, sequence 64, batch 2, fp32), four Adam steps from a fresh model, once
eagerly and once from CUDA graphs; then outputs, losses and weights of both are compared. Prints
cells a second of one warm process, as `cuda_rates_benchmark cells` does for cgconform. With --beside
both programs take turns, round by round, so that each ratio is of the same moment of the machine.
"""

import argparse
import statistics
import subprocess
import time

LAYERS, HIDDEN, HEADS, SEQUENCE, BATCH, VOCABULARY, STEPS = 4, 128, 4, 64, 2, 128, 4
WARMUP_STEPS = 1


def import_torch():
    try:
        import torch
    except ImportError:
        raise SystemExit("pytorch_peer.py: PyTorch is not installed; pip install torch")
    if not torch.cuda.is_available():
        raise SystemExit("pytorch_peer.py: PyTorch sees no NVIDIA device")
    return torch


def make_model(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = torch.nn.Embedding(VOCABULARY, HIDDEN)
            self.positions = torch.nn.Embedding(SEQUENCE, HIDDEN)
            self.layers = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(
                    HIDDEN, HEADS, 4 * HIDDEN, dropout=0.0, activation="gelu",
                    batch_first=True, norm_first=True)
                for _ in range(LAYERS))
            self.norm = torch.nn.LayerNorm(HIDDEN)
            self.head = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)
            self.register_buffer("range", torch.arange(SEQUENCE))

        def forward(self, tokens):
            hidden = self.tokens(tokens) + self.positions(self.range)
            for layer in self.layers:
                hidden = layer(hidden)
            return self.head(self.norm(hidden))

    torch.manual_seed(1)
    return Model().cuda()


def make_batches(torch):
    generator = torch.Generator().manual_seed(2)
    shape = (STEPS, BATCH, SEQUENCE)
    tokens = torch.randint(VOCABULARY, shape, generator=generator).cuda()
    labels = torch.randint(VOCABULARY, shape, generator=generator).cuda()
    return tokens, labels


def loss_of(torch, logits, labels):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def train(torch, graphs):
    """Outputs and losses of every step, and the weights at the end. `graphs`: none, layer, full."""
    model = make_model(torch)
    tokens, labels = make_batches(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.95))
    outputs, losses = [], []
    graph = static = None
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=graphs != "full")
        if graphs != "none" and step == WARMUP_STEPS:
            if graphs == "layer":
                sample = torch.randn(BATCH, SEQUENCE, HIDDEN, device="cuda", requires_grad=True)
                layers = torch.cuda.make_graphed_callables(
                    tuple(model.layers), tuple((sample.clone().requires_grad_(),) for _ in model.layers),
                    num_warmup_iters=1)
                model.layers = torch.nn.ModuleList(layers)
                optimizer.zero_grad(set_to_none=True)
            else:
                static, graph = capture_iteration(torch, model, tokens[step], labels[step])
        if graph is not None:
            static["tokens"].copy_(tokens[step])
            static["labels"].copy_(labels[step])
            graph.replay()
            logits, loss = static["logits"], static["loss"]
        else:
            logits = model(tokens[step])
            loss = loss_of(torch, logits, labels[step])
            loss.backward()
        outputs.append(logits.detach().clone())
        losses.append(loss.detach().clone())
        del logits, loss  # what they hold of autograd belongs to this stream, not to the capture's
        optimizer.step()
    return outputs, losses, [weight.detach().clone() for weight in model.parameters()]


def capture_iteration(torch, model, tokens, labels):
    static = {"tokens": tokens.clone(), "labels": labels.clone()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss_of(torch, model(static["tokens"]), static["labels"]).backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    model.zero_grad(set_to_none=False)
    with torch.cuda.graph(graph):
        for weight in model.parameters():
            weight.grad.zero_()
        static["logits"] = model(static["tokens"])
        static["loss"] = loss_of(torch, static["logits"], static["labels"])
        static["loss"].backward()
    return static, graph


def run_cell(torch, graphs):
    eager = train(torch, "none")
    graphed = train(torch, graphs)
    worst = max((a - b).abs().max() for part_a, part_b in zip(eager, graphed)
                for a, b in zip(part_a, part_b))
    return float(worst)


def kernels_per_step(torch):
    """Device kernels of one eager cell leg, divided by its steps."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        train(torch, "none")
        torch.cuda.synchronize()
    return sum(1 for event in trace.events() if event.device_type.name == "CUDA") / STEPS


class Beside:
    """cuda_rates_benchmark, which runs a round whenever it is told to."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "turns"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines_to("ready")

    def lines_to(self, end):
        lines = []
        for line in self.process.stdout:
            if line.strip() == end:
                return lines
            lines.append(line.strip())
        raise SystemExit(f"pytorch_peer.py: cuda_rates_benchmark ended before '{end}': {lines}")

    def run_round(self):
        """Cells a second by what was run."""
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        rates = (line.rsplit(": ", 1) for line in self.lines_to("end of round"))
        return {name: float(rate) for name, rate in rates}


def print_ratios(kinds, rates, beside_rates):
    for name in beside_rates[0]:
        graphs = next(graphs for graphs, kind in kinds.items() if name.startswith(kind))
        ratios = [theirs[name] / ours for theirs, ours in zip(beside_rates, rates[graphs])]
        own = [theirs[name] for theirs in beside_rates]
        print(f"cgconform, {name}: {statistics.median(own):.1f} (at best {max(own):.1f}), "
              f"{statistics.median(ratios):.1f} times PyTorch by the median of {len(ratios)} rounds, "
              f"{max(own) / max(rates[graphs]):.1f} by the best")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=4, help="cells in a round (default 4)")
    parser.add_argument("--rounds", type=int, default=10, help="rounds to time (default 10)")
    parser.add_argument("--beside", metavar="PROGRAM",
                        help="take turns with this cuda_rates_benchmark and print the ratios")
    options = parser.parse_args()
    torch = import_torch()
    beside = Beside(options.beside) if options.beside else None
    beside_rates = []
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    # Capture refuses work that the legacy stream waits for, so nothing may run there.
    with torch.cuda.stream(torch.cuda.Stream()):
        print(f"kernels a step in the eager leg: {kernels_per_step(torch):.0f}")
        kinds = {"layer": "graph a layer", "full": "full iteration"}
        rates = {graphs: [] for graphs in kinds}
        worst = {graphs: run_cell(torch, graphs) for graphs in kinds}
        # The rounds take turns, so that a slow while of the machine does not become a rate.
        for _ in range(options.rounds):
            for graphs in kinds:
                start = time.perf_counter()
                for _ in range(options.cells):
                    worst[graphs] = max(worst[graphs], run_cell(torch, graphs))
                rates[graphs].append(options.cells / (time.perf_counter() - start))
            if beside:
                torch.cuda.synchronize()
                beside_rates.append(beside.run_round())
        for graphs, name in kinds.items():
            print(f"cells a second, {name}: {statistics.median(rates[graphs]):.1f} "
                  f"(at best {max(rates[graphs]):.1f}, largest difference {worst[graphs]:.1e})")
        if beside:
            print_ratios(kinds, rates, beside_rates)


if __name__ == "__main__":
    main()
