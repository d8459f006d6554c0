/**
 * Rules of docs/protocol.md taken out, from outside of the roles: by their timing, by what their
 * transport hands them, by what the simulated Redis does.
 */
import {
  compareEpochs,
  type DescribedMessage,
  type DoneEntry,
  type Epoch,
  type ExecuteMessage,
  type Message,
  type Outcome,
  type ProcessId,
} from '@nereid/protocol';
import type { MainRole, RedisDirectory, Timing, Transport } from '@nereid/transport';
import { altered, UNALTERED } from './altered-transport.ts';
import { SEQUENCE_RULES, type SequenceRule, toldEarly } from './sequence-switches.ts';
import type { ScriptRules } from './sim-scripts.ts';

export type Rule =
  | 'R1'
  | 'R2'
  | 'R3'
  | 'R3 tie'
  | 'R4'
  | 'R5'
  | 'R6'
  | 'R7'
  | 'R8 sweep'
  | 'R9'
  | 'R10'
  | 'R11'
  | SequenceRule
  | 'R23 new ids'
  | 'R23 no retries'
  | 'R24'
  | 'R25'
  | 'R26'
  | 'R27'
  | 'R28'
  | 'R29'
  | 'R30'
  | 'R36'
  | 'R37'
  /** That epochs never fall behind what a living process has seen (directory-script.ts). */
  | 'epoch memory'
  /** That what a worker held of resources that all share is free once it is gone (resources-script.ts). */
  | 'claims end';

/** What clients do that cannot know the outcome of a step (R23). */
export interface ClientContract {
  /** They begin anew under the same correlation id. */
  readonly reusesIds: boolean;
  /** They send the step once more. */
  readonly retriesBlindly: boolean;
}

export interface Switches {
  readonly contract: ClientContract;
  readonly off: ReadonlySet<Rule>;
  /** R1: a process takes the id that it had before it died. */
  readonly sameIds: boolean;
  /** What the scripts in Redis do. */
  readonly scripts: ScriptRules;
  timing(timing: Timing): Timing;
  transport(role: MainRole, transport: Transport): Transport;
  /** R17 or R19 off: who waits is told of each answer as it comes to its gateway. */
  early(
    role: MainRole,
    transport: Transport,
    answered: (gateway: ProcessId, request: string, outcome: Outcome) => void,
  ): Transport;
  directory<R>(directory: RedisDirectory<R>): RedisDirectory<R>;
}

/** Never, in milliseconds of virtual time. */
const NEVER_MS = 1e9;

export function switchOff(...rules: readonly Rule[]): Switches {
  const off = new Set(rules);
  const heard: Heard = new Map();
  return {
    off,
    contract: { reusesIds: off.has('R23 new ids'), retriesBlindly: off.has('R23 no retries') },
    sameIds: off.has('R1'),
    scripts: {
      newEpochs: !off.has('R2'),
      epochMemory: !off.has('epoch memory'),
      grace: !off.has('R11'),
      expireMailboxes: !off.has('R36'),
      dropClaims: !off.has('claims end'),
      takeBlobs: !off.has('R30'),
    },
    timing: (timing) => ({
      ...timing,
      ...(off.has('R8 sweep') ? { resend_ms: NEVER_MS, resend_max_ms: NEVER_MS } : {}),
      ...(off.has('R27') ? { stream_quiet_ms: NEVER_MS } : {}),
      ...(off.has('R28') ? { probe_batch_ms: NEVER_MS, probe_worker_ms: NEVER_MS } : {}),
    }),
    directory: (directory) => ({
      ...directory,
      ...(off.has('R5') ? { holds: (model, owner) => directory.owner(model)?.owner === owner } : {}),
      ...(off.has('R10') ? { registered: () => true } : {}),
    }),
    early: (role, transport, answered) =>
      role === 'gateway' && (off.has('R17') || off.has('R19')) ? toldEarly(transport, answered) : transport,
    transport(role, transport) {
      let made = transport;
      for (const { rule, of, take } of [...TAKEN_OUT, ...SEQUENCE_RULES])
        if (role === of && off.has(rule)) made = take(made, heard);
      return made;
    },
  };
}

/** What is taken out of a role by its transport. */
const TAKEN_OUT: readonly {
  readonly rule: Rule;
  readonly of: MainRole;
  readonly take: (transport: Transport, heard: Heard) => Transport;
}[] = [
  { rule: 'R3', of: 'worker', take: (transport) => unfenced(transport, () => true) },
  {
    rule: 'R3 tie',
    of: 'worker',
    take: (transport) => unfenced(transport, (sent, seen) => sent.number === seen.number),
  },
  { rule: 'R4', of: 'coordinator', take: refusalsTellNothing },
  { rule: 'R6', of: 'coordinator', take: anyEpochWillDo },
  { rule: 'R7', of: 'coordinator', take: (transport) => ({ ...transport, onInterruption: () => () => {} }) },
  { rule: 'R9', of: 'coordinator', take: workersAsLastHeard },
  { rule: 'R24', of: 'coordinator', take: nothingRunsOut },
  { rule: 'R25', of: 'worker', take: finishedIdsNeverRunAgain },
  { rule: 'R29', of: 'gateway', take: missingGoesUnheard },
  { rule: 'R26', of: 'coordinator', take: nothingRunsElsewhere },
  { rule: 'R27', of: 'gateway', take: whateverComesIsNext },
];

/** A gateway that says of each request how long it has left. */
export function sayingTimeLeft(transport: Transport, msLeft: number): Transport {
  return altered(transport, () => ({
    sent: (message) => (message.kind === 'infer' ? { ...message, msLeft } : message),
    received: (message) => [message],
  }));
}

/** R24 off: an owner does not hear how long a request has left. */
function nothingRunsOut(transport: Transport): Transport {
  return altered(transport, () => ({
    sent: UNALTERED,
    received: (message) => [message.kind === 'infer' ? { ...message, msLeft: 0 } : message],
  }));
}

/** R4 off: who is refused does not hear how high to go. */
function refusalsTellNothing(transport: Transport): Transport {
  return altered(transport, () => ({
    sent: UNALTERED,
    received: (message) => [message.kind === 'refused' ? { ...message, highest: message.sent } : message],
  }));
}

/** R6 off: a coordinator takes what was meant for another epoch or another owner as meant for it. */
function anyEpochWillDo(transport: Transport): Transport {
  return altered(transport, () => {
    const own = new Map<string, Epoch>();
    return {
      sent(message) {
        if (message.kind === 'describe' || message.kind === 'execute') own.set(message.model, message.epoch);
        return message;
      },
      received(message) {
        const meant = message.kind === 'infer' || message.kind === 'cancel';
        const epoch = meant ? own.get(message.model) : undefined;
        return [meant && epoch !== undefined ? { ...message, epoch } : message];
      },
    };
  });
}

/** What workers last said of their models to any coordinator, by worker and model. */
type Heard = Map<string, DescribedMessage>;

/** R9 off: an owner takes a worker for what it told the one before, without waiting for its answer. */
function workersAsLastHeard(transport: Transport, heard: Heard): Transport {
  return altered(transport, () => {
    const asked = new Set<string>();
    let believed: Message[] = [];
    return {
      sent(message, to) {
        const known = message.kind === 'describe' ? heard.get(`${to}/${message.model}`) : undefined;
        if (message.kind === 'describe' && known !== undefined) {
          const first = `${to}/${message.model}/${message.epoch.owner}/${message.epoch.number}`;
          if (!asked.has(first)) believed.push({ ...known, askedAt: message.askedAt });
          asked.add(first);
        }
        return message;
      },
      received(message) {
        if (message.kind === 'described') heard.set(`${message.worker}/${message.model}`, message);
        const seen = [...believed, message];
        believed = [];
        return seen;
      },
    };
  });
}

/** R29 off: a gateway is not told that a worker did not find a request's tensors. */
function missingGoesUnheard(transport: Transport): Transport {
  return altered(transport, () => ({
    sent: UNALTERED,
    received: (message) => (message.kind === 'missing' ? [] : [message]),
  }));
}

/** R26 off: an owner is not told what workers still run for an earlier one. */
function nothingRunsElsewhere(transport: Transport): Transport {
  return altered(transport, () => ({
    sent: UNALTERED,
    received: (message) =>
      message.kind === 'described'
        ? [{ ...message, versions: message.versions.map((version) => ({ ...version, running: [] })) }]
        : [message],
  }));
}

/** R27 off: a gateway takes each chunk as the next one, whatever it misses and whoever sent it. */
function whateverComesIsNext(transport: Transport): Transport {
  return altered(transport, () => {
    const streams = new Map<string, { readonly execution: string; next: number }>();
    return {
      sent: UNALTERED,
      received(message) {
        if (message.kind !== 'response') return [message];
        const stream = streams.get(message.id) ?? { execution: message.execution, next: 0 };
        streams.set(message.id, stream);
        return [{ ...message, execution: stream.execution, chunk: stream.next++ }];
      },
    };
  });
}

/** R25 off: a worker drops each request that it has ever been sent before. */
function finishedIdsNeverRunAgain(transport: Transport): Transport {
  return altered(transport, (mailbox) => {
    const seen = new Set<string>();
    return {
      sent: UNALTERED,
      received(message) {
        if (message.kind !== 'execute') return [message];
        const entries = message.entries.filter(({ id }) => !seen.has(id));
        for (const { id } of entries) seen.add(id);
        if (entries.length === message.entries.length) return [message];
        if (entries.length > 0) return [{ ...message, entries }];
        mailbox.send(message.epoch.owner, duplicates(message, mailbox.id));
        return [];
      },
    };
  });
}

function duplicates(message: ExecuteMessage, worker: ProcessId): Message {
  const { model, epoch, version, batch, instance } = message;
  const entries = message.entries.map(({ id }): DoneEntry => ({ id, result: 'duplicate', error: null }));
  const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
  return { kind: 'done', model, epoch, version, worker, batch, instance, timing, executed: false, entries };
}

/** Fake batch numbers are beyond all real ones. */
const DISGUISED_FROM = 1e9;

/**
 * R3 off: messages of a lower epoch pass the worker's fence, by the name of the highest that it has
 * seen. What the worker says of such a batch goes out under its own name.
 */
function unfenced(transport: Transport, lets: (sent: Epoch, seen: Epoch) => boolean): Transport {
  return altered(transport, () => {
    const highest = new Map<string, Epoch>();
    const disguised = new Map<number, ExecuteMessage>();
    let next = DISGUISED_FROM;
    return {
      received(message) {
        if (!('epoch' in message) || message.kind === 'done') return [message];
        const seen = highest.get(message.model);
        if (seen === undefined || compareEpochs(message.epoch, seen) >= 0) {
          highest.set(message.model, message.epoch);
          return [message];
        }
        if (message.kind !== 'execute' || !lets(message.epoch, seen)) return [message];
        const batch = next++;
        disguised.set(batch, message);
        return [{ ...message, epoch: seen, batch }];
      },
      sent(message) {
        const real = message.kind === 'done' ? disguised.get(message.batch) : undefined;
        if (message.kind !== 'done' || real === undefined) return message;
        return { ...message, epoch: real.epoch, batch: real.batch };
      },
    };
  });
}
