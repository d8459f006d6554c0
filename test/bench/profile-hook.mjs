/**
 * Loaded into a server's process before its own code (node --import) by profile.mjs, in every thread of it. SIGUSR2 goes
 * through the steps below, one signal a step; each thread writes what it recorded into the folder BENCH_PROFILES.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';

/** A sample of the heap for each so many bytes that are allocated. */
const HEAP_INTERVAL_BYTES = 8_192;
const CPU_INTERVAL_US = 500;
/** What is gone again by the end counts too: all that was allocated. */
const ALLOCATIONS = {
  samplingInterval: HEAP_INTERVAL_BYTES,
  includeObjectsCollectedByMajorGC: true,
  includeObjectsCollectedByMinorGC: true,
};

const folder = process.env.BENCH_PROFILES;
const thread = isMainThread ? 'main' : `thread-${threadId}`;
const session = new Session();
session.connect();

/** Answers at once: the session is that of this thread. */
const post = (method, parameters) => {
  let answer;
  session.post(method, parameters, (error, result) => {
    if (error) throw error;
    answer = result;
  });
  return answer;
};

/** Is there while a thread records. */
const recording = (kind) => join(folder, `${thread}.${kind}.recording`);

const begin = (kind) => writeFileSync(recording(kind), '');

const write = (kind, profile) => {
  writeFileSync(join(folder, `${thread}.${kind}`), JSON.stringify(profile));
  rmSync(recording(kind));
};

const STEPS = [
  () => {
    post('Profiler.enable');
    post('Profiler.setSamplingInterval', { interval: CPU_INTERVAL_US });
    post('Profiler.start');
    begin('cpuprofile');
  },
  () => write('cpuprofile', post('Profiler.stop').profile),
  () => {
    post('HeapProfiler.startSampling', ALLOCATIONS);
    begin('heapprofile');
  },
  () => write('heapprofile', post('HeapProfiler.stopSampling').profile),
];
mkdirSync(folder, { recursive: true });
let step = 0;
const next = () => {
  STEPS[step]?.();
  step += 1;
};

/** Threads are started without this process' options, so the hook goes into each by itself. */
function hookThreads() {
  const threads = createRequire(import.meta.url)('node:worker_threads');
  const { Worker } = threads;
  threads.Worker = class extends Worker {
    constructor(url, options = {}) {
      super(url, { ...options, execArgv: [...(options.execArgv ?? []), '--import', import.meta.url] });
    }
  };
  syncBuiltinESMExports();
}

const channel = new BroadcastChannel('bench-profile');
channel.unref();
if (isMainThread) {
  hookThreads();
  process.on('SIGUSR2', () => {
    channel.postMessage('next');
    next();
  });
} else channel.onmessage = next;
