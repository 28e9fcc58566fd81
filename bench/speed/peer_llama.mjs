// Decoding as in main.go with llama.cpp's prebuilt library: node peer_llama.mjs FILE.gguf BATCH THREADS
// (npm install node-llama-cpp @node-llama-cpp/linux-x64). Prompts of 128 random ids, 32 sampled.
import {getLlama} from "node-llama-cpp";

const [file, batch, threads] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const context = await model.createContext({contextSize: 512, sequences: batch, batchSize: 512, threads});
const sequences = Array.from({length: batch}, () => context.getSequence());

async function generate(sequence, count) {
    await sequence.clearHistory();
    const prompt = Array.from({length: 128}, () => 1000 + Math.floor(Math.random() * 40000));
    let n = 0;
    for await (const _ of sequence.evaluate(prompt, {temperature: 1, topK: 0, topP: 1, minP: 0, yieldEogToken: true}))
        if (++n === count) break;
    return n;
}

async function run(count) {
    const [cpu, wall] = [process.cpuUsage(), performance.now()];
    const tokens = (await Promise.all(sequences.map((s) => generate(s, count)))).reduce((a, b) => a + b);
    const used = process.cpuUsage(cpu);
    return {tokens, cpu: (used.user + used.system) / 1e6, wall: (performance.now() - wall) / 1e3};
}
await run(2); // a first run that is not counted
const all = await run(32);
const prompts = await run(1); // what the prompts alone take
console.log(JSON.stringify({Who: "llama.cpp", Case: "decode", File: file, Threads: threads, Batch: batch, tokens: all.tokens,
    cpu_s: all.cpu, wall_s: all.wall, decode_cpu_s: all.cpu - prompts.cpu, decode_tokens: all.tokens - prompts.tokens}));
process.exit(0);
