/**
 * Rules of docs/protocol.md taken out, from outside of the roles: by their timing, by what their
 * transport hands them, by what the simulated Redis does. A check must notice each.
 */
import {
  compareEpochs,
  type DoneEntry,
  type Epoch,
  type ExecuteMessage,
  type Message,
  type ProcessId,
} from '@nereid/protocol';
import type { Mailbox, RedisDirectory, Role, Timing, Transport } from '@nereid/transport';
import type { ScriptRules } from './sim-scripts.ts';

export type Rule =
  | 'R1'
  | 'R2'
  | 'R3'
  | 'R3 tie'
  | 'R5'
  | 'R7'
  | 'R8 sweep'
  | 'R25'
  | 'R28'
  | 'R36'
  /** That epochs never fall behind what a living process has seen (directory-script.ts). */
  | 'epoch memory';

export interface Switches {
  readonly off: ReadonlySet<Rule>;
  /** R1: a process takes the id that it had before it died. */
  readonly sameIds: boolean;
  /** What the scripts in Redis do. */
  readonly scripts: ScriptRules;
  timing(timing: Timing): Timing;
  transport(role: Role, transport: Transport): Transport;
  directory<R>(directory: RedisDirectory<R>): RedisDirectory<R>;
}

/** Never, in milliseconds of virtual time. */
const NEVER_MS = 1e9;

export function switchOff(...rules: readonly Rule[]): Switches {
  const off = new Set(rules);
  return {
    off,
    sameIds: off.has('R1'),
    scripts: {
      newEpochs: !off.has('R2'),
      epochMemory: !off.has('epoch memory'),
      expireMailboxes: !off.has('R36'),
    },
    timing: (timing) => ({
      ...timing,
      ...(off.has('R8 sweep') ? { resend_ms: NEVER_MS, resend_max_ms: NEVER_MS } : {}),
      ...(off.has('R28') ? { probe_batch_ms: NEVER_MS, probe_worker_ms: NEVER_MS } : {}),
    }),
    directory: (directory) =>
      off.has('R5') ? { ...directory, holds: (model, owner) => directory.owner(model)?.owner === owner } : directory,
    transport(role, transport) {
      let made = transport;
      if (role === 'coordinator' && off.has('R7')) made = { ...made, onInterruption: () => () => {} };
      if (role === 'worker' && off.has('R25')) made = finishedIdsNeverRunAgain(made);
      if (role === 'worker' && off.has('R3')) made = unfenced(made, () => true);
      if (role === 'worker' && off.has('R3 tie')) made = unfenced(made, (sent, seen) => sent.number === seen.number);
      return made;
    },
  };
}

/** A transport whose mailboxes see other messages than those that come, and send others than they are told to. */
function altered(
  transport: Transport,
  alter: (mailbox: Mailbox) => {
    readonly received: (message: Message) => readonly Message[];
    readonly sent: (message: Message) => Message;
  },
): Transport {
  return {
    ...transport,
    open(id, receive) {
      const mailbox: Mailbox = transport.open(id, (messages) => {
        const seen = messages.flatMap((message) => alterations.received(message));
        if (seen.length > 0) receive(seen);
      });
      const alterations = alter(mailbox);
      return {
        ...mailbox,
        send: (to, message, refused) => mailbox.send(to, alterations.sent(message), refused),
      };
    },
  };
}

/** R25 off: a worker drops each request that it has ever been sent before. */
function finishedIdsNeverRunAgain(transport: Transport): Transport {
  return altered(transport, (mailbox) => {
    const seen = new Set<string>();
    return {
      sent: (message) => message,
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
