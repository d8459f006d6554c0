#!/usr/bin/env node
import { openSync, readFileSync, writeSync } from 'node:fs';
import { hostname } from 'node:os';
import { Readable } from 'node:stream';
import { packageVersion, systemClock } from '@nereid/runtime';
import { createServer, startRole } from '@nereid/server';
import { listAliases, promoteAlias, removeAlias, rollBackAlias, setAlias } from './aliases.ts';
import { runCommandLine } from './command-line.ts';
import { listLetters, removeLetter, replayLetter, showLetter } from './dead-letters.ts';
import { EXIT_CODE, type ExitCode, REPLAY_EXIT_CODE } from './exit-code.ts';
import { explain } from './explain.ts';
import { cancelJob, listJobs, removeJob, retryJob, showJob } from './jobs.ts';
import { listIndex, loadModel, unloadModel } from './models.ts';
import { checkModels } from './models-check.ts';
import { printable } from './printable.ts';
import { showRecording } from './recording-show.ts';
import { listRecordings, removeRecording } from './recordings.ts';
import { diffRecordings } from './replay-diff.ts';
import { exportRecording, importRecording } from './replay-files.ts';
import { runReplay } from './replay-run.ts';
import { type RunHost, run } from './run.ts';
import { evictSequence, listSequences } from './sequences.ts';
import { STOP_SIGNALS } from './stop-signals.ts';
import { watchJob } from './watch-job.ts';
import { resendWebhook, showWebhook } from './webhooks.ts';
import { keeperChannel, startWorker } from './worker-processes.ts';

// The SDK's versions are ours to choose: what its later ones want of Node.js is no news for who runs this one.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';

const host: RunHost = {
  pid: process.pid,
  hostName: hostname(),
  env: process.env,
  clock: systemClock(),
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  listenForSignals(listener) {
    for (const signal of STOP_SIGNALS) process.on(signal, listener);
  },
  readFile: (path) => readFileSync(path, 'utf8'),
  openLogFile(path) {
    const file = openSync(path, 'a');
    return (text) => void writeSync(file, text);
  },
  kill: () => process.kill(process.pid, 'SIGKILL'),
  keeper: keeperChannel(),
  residentBytes: () => process.memoryUsage.rss(),
  startWorker,
  start: {
    serve: createServer,
    gateway: (options) => startRole('gateway', options),
    coordinator: (options) => startRole('coordinator', options),
    worker: (options) => startRole('worker', options),
  },
};

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const caller = {
  ...host,
  stdout: (text: string) => host.stdout(printable(text)),
  stderr: (text: string) => host.stderr(printable(text)),
  fetch,
  pause,
  isTerminal: process.stderr.isTTY === true,
  stdin: () => Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>,
  writeBytes: (bytes: Uint8Array) =>
    new Promise<void>((resolve, reject) => {
      process.stdout.write(bytes, (failure) => (failure == null ? resolve() : reject(failure)));
    }),
};

// A reader of our output that goes away (`nereid serve | head`) must not end the server.
let unwritten: NodeJS.ErrnoException | undefined;
process.stdout.on('error', (failure) => {
  unwritten ??= failure;
});
process.stderr.on('error', () => {});

/** Resolves once its reader has all that was written, or is gone. */
const written = (stream: NodeJS.WriteStream) => new Promise<void>((resolve) => stream.write('', () => resolve()));

/** Of a command whose output has no room: 1 of a replay is a verdict. */
function cutExitCode([command, name = '']: readonly string[]): ExitCode {
  return command === 'replay' && /^(?:run|diff)$/.test(name) ? REPLAY_EXIT_CODE.notRun : EXIT_CODE.failed;
}

let isServer = false;
const exitCode = await runCommandLine(process.argv.slice(2), {
  version: packageVersion(import.meta.url),
  stdout: host.stdout,
  stderr: host.stderr,
  run: (command, argv) => {
    isServer = true;
    return run(command, argv, host);
  },
  models: {
    check: checkModels,
    list: (options) => listIndex(options, caller),
    load: (options) => loadModel(options, caller),
    unload: (options) => unloadModel(options, caller),
  },
  listSequences: (options) => listSequences(options, caller),
  explain: (options) => explain(options, caller),
  evictSequence: (options) => evictSequence(options, caller),
  aliases: {
    list: (options) => listAliases(options, caller),
    set: (options) => setAlias(options, caller),
    promote: (options) => promoteAlias(options, caller),
    rollBack: (options) => rollBackAlias(options, caller),
    remove: (options) => removeAlias(options, caller),
  },
  jobs: {
    list: (options) => listJobs(options, caller),
    show: (options) => showJob(options, caller),
    retry: (options) => retryJob(options, caller),
    cancel: (options) => cancelJob(options, caller),
    remove: (options) => removeJob(options, caller),
    watch: (options) => watchJob(options, caller),
  },
  followUps: {
    listLetters: (options) => listLetters(options, caller),
    showLetter: (options) => showLetter(options, caller),
    replayLetter: (options) => replayLetter(options, caller),
    removeLetter: (options) => removeLetter(options, caller),
    showWebhook: (options) => showWebhook(options, caller),
    resendWebhook: (options) => resendWebhook(options, caller),
  },
  replay: {
    list: (options) => listRecordings(options, caller),
    show: (options) => showRecording(options, caller),
    run: (options) => runReplay(options, caller),
    diff: (options) => diffRecordings(options, caller),
    export: (options) => exportRecording(options, caller),
    import: (options) => importRecording(options, caller),
    remove: (options) => removeRecording(options, caller),
  },
});
// What a pipe has not taken yet would be cut off. A server waits for no reader.
if (!isServer) await Promise.all([process.stdout, process.stderr].map(written));
const cut = cutExitCode(process.argv.slice(2));
// What has failed already has said why.
const isCut = !isServer && unwritten !== undefined && unwritten.code !== 'EPIPE' && exitCode < cut;
if (isCut) host.stderr(`nereid: standard output: ${unwritten?.message}\n`);
// Explicit, since after an expired exit timeout a running model would hold the process.
process.exit(isCut ? cut : exitCode);
