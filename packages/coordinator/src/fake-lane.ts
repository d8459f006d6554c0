/** For tests: the transport and the directory between processes, in which a test makes things go wrong. */
import type { ModelRecord } from '@nereid/config';
import { type CarriedTensor, type Message, NereidError } from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, type Directory, type Transport } from '@nereid/transport';
import { callerOf } from './ensemble-calls.ts';

/** The lanes between the processes, with what a test says going wrong. */
export function fakeLane() {
  const inner = createLocalTransport({ messages_max: 10_000, bytes_max: 1_000_000_000 });
  const directory = createLocalDirectory<ModelRecord>();
  const interruptions = new Set<() => void>();
  const dead = new Set<string>();
  /** Messages for which it says true are lost on the way. */
  const loss = { of: (_message: Message, _to: string): boolean => false };
  /** Models whose leases their owners cannot be sure of. */
  const unsure = new Set<string>();
  /** While `yes`, the directory answers nobody. */
  const away = { yes: false };
  const answered = async <T>(call: () => Promise<T>): Promise<T> => {
    if (away.yes) throw new NereidError('UNAVAILABLE', 'Redis does not answer');
    return call();
  };
  /** What roles have said of the tensors of requests. */
  const tensors = { released: [] as CarriedTensor[], rewritten: [] as CarriedTensor[], kept: new Set<CarriedTensor>() };
  /** By their blobs, as the store does. */
  const forget = (list: readonly CarriedTensor[]) => {
    const ids = new Set(list.flatMap((tensor) => ('blob' in tensor ? [tensor.blob.id] : [])));
    for (const tensor of tensors.kept) {
      if (list.includes(tensor) || ('blob' in tensor && ids.has(tensor.blob.id))) tensors.kept.delete(tensor);
    }
  };
  const transport: Transport = {
    ...inner,
    largeTensors: {
      release: (list) => void tensors.released.push(...list),
      rewrite: (list) => void tensors.rewritten.push(...list),
      keep: (list) => {
        for (const tensor of list) tensors.kept.add(tensor);
      },
      letGo: forget,
      discard: forget,
      put: async () => undefined,
      lifetimeMs: 12_000,
    },
    open(id, receive, options) {
      const mailbox = inner.open(
        id,
        (messages) => {
          if (!dead.has(id)) receive(messages);
        },
        options,
      );
      return {
        ...mailbox,
        send(to, message, refused) {
          if (!dead.has(id) && !dead.has(to) && !loss.of(message, to)) mailbox.send(to, message, refused);
        },
      };
    },
    onInterruption(listener) {
      interruptions.add(listener);
      return () => void interruptions.delete(listener);
    },
  };
  const never = new Promise<never>(() => {});
  const timers = new Map<string, Set<Timer>>();
  return {
    transport,
    directory,
    loss,
    unsure,
    tensors,
    away,
    directoryOf: (id: string): Directory<ModelRecord> => ({
      ...directory,
      acquire: (...args) => (dead.has(id) ? never : directory.acquire(...args)),
      publish: (...args) => (dead.has(id) ? never : directory.publish(...args)),
      register: (process) => answered(() => directory.register(process)),
      release: (model, owner) => answered(() => directory.release(model, owner)),
      withdraw: (model) => answered(() => directory.withdraw(model)),
      leave: (process) => answered(() => directory.leave(process)),
      holds: (model, owner) => !unsure.has(model) && directory.holds(model, owner),
      watch: (listener) =>
        directory.watch((change) => {
          if (!dead.has(id)) listener(change);
        }),
    }),
    interrupt() {
      for (const listener of interruptions) listener();
    },
    clockOf(id: string, clock: Clock): Clock {
      const own = new Set<Timer>();
      timers.set(id, own);
      return {
        nowUs: () => clock.nowUs(),
        wallMs: () => clock.wallMs(),
        at(timeUs, callback) {
          const timer = clock.at(timeUs, () => {
            own.delete(timer);
            if (!dead.has(id)) callback();
          });
          own.add(timer);
          return timer;
        },
      };
    },
    /** The process does nothing more, and all that it held has run out. */
    async kill(id: string) {
      for (const part of [id, callerOf(id)]) dead.add(part);
      for (const timer of timers.get(id) ?? []) timer.cancel();
      for (const part of [id, callerOf(id)]) await directory.leave(part);
      for (const { name } of directory.records()) await directory.release(name, id);
    },
  };
}
