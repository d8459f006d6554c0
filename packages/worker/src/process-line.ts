import type { ChildProcess } from 'node:child_process';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { errorInfo, NereidError } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { LineEvents, OpenLine } from './instance-line.ts';
import type { InstanceOrder, InstanceReport, InstanceSetup } from './instance-messages.ts';
import { createLineLimit } from './line-limit.ts';
import { createOutputLines } from './output-lines.ts';
import { createPipeReader, type PipeMessage, pipeFrame } from './pipe-frames.ts';
import { watchEnd } from './process-end.ts';
import { RETURNED_BYTES_MIN } from './spare-frames.ts';

/** How an instance's process is started. */
export interface InstanceLaunch {
  /** The command, with its arguments, that starts it (`taskset -c 0-3`); empty for none. */
  readonly prefix: readonly string[];
}

/** Starts a process with pipes at the descriptors 1 and 2 (its output), LINE_FD and LIFE_FD. */
export type SpawnProcess = (launch: InstanceLaunch, setup: InstanceSetup) => ChildProcess;

/** Orders and reports go through this pipe. */
export const LINE_FD = 3;
/** Nothing goes through this one: its end says that the worker is gone. */
export const LIFE_FD = 4;
/** Of the last line on standard error, which a process that does not come up is told by. */
const LAST_LINE_CHARS_MAX = 400;

/**
 * The line to a process of the instance's own. Its standard output and error are logged line by line, as
 * far as a log can take it. It can always be ended, and ends by itself when this process does.
 */
export function processLine(spawn: SpawnProcess, launch: InstanceLaunch, clock: Clock, log: Log): OpenLine {
  return (setup, events) => {
    const child = spawn(launch, setup);
    // Out of file descriptors Node makes no pipes at all, and an event says so later.
    const line = child.stdio?.[LINE_FD];
    if (!(line instanceof Socket)) {
      child.on('error', () => {});
      throw new NereidError('INTERNAL', 'the system has no file descriptors left for its pipes');
    }
    let lastLine = '';
    let isUp = false;
    const end = watchEnd(child, clock, (words) => {
      const launched = launch.prefix.length === 0 ? '' : ` (started by '${launch.prefix.join(' ')}')`;
      events.ended(isUp ? words : words + launched + (lastLine && `: ${lastLine}`));
    });
    logOutput(child, setup, clock, log, (written) => {
      lastLine = written.slice(0, LAST_LINE_CHARS_MAX);
    });

    const reader = createPipeReader(allocate, ({ object, buffers }) => {
      isUp = true;
      events.take(object === undefined ? buffers : (object as InstanceReport));
    });
    line.on('data', (chunk) => {
      try {
        reader.read(chunk);
      } catch (wrong) {
        // Whatever wrote there, nothing more can be read.
        line.destroy();
        end.fail(errorInfo(wrong).message);
      }
    });
    writeAll(line, { object: setup, buffers: [] });

    return {
      post: (order, frameBytes) => post(line, order, frameBytes, events),
      terminate: end.terminate,
      giveUp: end.terminate,
    };
  };
}

/** Not cleared: the pages of a large result are written to once, not twice. */
function allocate(bytes: number): ArrayBuffer {
  return bytes < RETURNED_BYTES_MIN ? new ArrayBuffer(bytes) : (Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer);
}

function post(line: Socket, order: InstanceOrder, frameBytes: number, { spare }: LineEvents): void {
  if (order instanceof ArrayBuffer) writeAll(line, { object: undefined, buffers: [order] }, frameBytes, spare);
  else if ('kind' in order) writeAll(line, { object: order, buffers: [] });
  else writeAll(line, { object: order[1], buffers: [order[0]] }, frameBytes, spare);
}

/** What waits here is bounded: an instance holds few batches, and all else is small. */
function writeAll(line: Socket, message: PipeMessage, firstBytes = 0, written?: (frame: ArrayBuffer) => void): void {
  const parts = pipeFrame(message, firstBytes);
  const [frame] = message.buffers;
  line.cork();
  for (const [index, part] of parts.entries()) {
    if (index < parts.length - 1 || frame === undefined) line.write(part);
    else line.write(part, () => written?.(frame));
  }
  line.uncork();
}

function logOutput(
  { stdout, stderr }: ChildProcess,
  setup: InstanceSetup,
  clock: Clock,
  log: Log,
  lastError: (line: string) => void,
): void {
  const fields = { model: setup.signature.name, instance: setup.instanceName };
  const read = (from: Readable | null, tell: (line: string) => void, seen: (line: string) => void) => {
    const limit = createLineLimit(clock, tell);
    const lines = createOutputLines((line) => {
      seen(line);
      limit.take(line);
    });
    from?.on('data', (chunk) => {
      lines.write(chunk);
      // Else it would be read on for as long as it writes as fast.
      from.pause();
      setImmediate(() => from.resume());
    });
    from?.on('end', () => {
      lines.end();
      limit.end();
    });
  };
  const unseen = () => {};
  read(stdout, (line) => log.info(fields, line), unseen);
  read(stderr, (line) => log.warn(fields, line), lastError);
}
