import type { ModelRecord } from '@nereid/config';
import {
  type ErrorInfo,
  type ExplainedCall,
  type ExplainedMessage,
  type ExplainedRun,
  type ExplainMessage,
  type ProcessId,
  STOPPING,
} from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import type { Result } from './result.ts';

/** Callers at a time; one more is refused. */
const CALLS_MAX = 16;
/** How long one round of questions waits for answers. */
const ROUND_MS = 1_000;
/** From a request to the calls made for it, to the calls made for those, and so on. */
const ROUNDS_MAX = 6;
/** Requests of one answer, inner calls too. */
const FOUND_MAX = 1_000;
const ASKED_ROLES = ['gateway', 'coordinator', 'caller'] as const;

const BUSY: ErrorInfo = { code: 'UNAVAILABLE', message: 'too many requests to explain others at a time; try again' };

/** What the processes of the cluster know of some requests. */
export interface Known {
  readonly calls: readonly ExplainedCall[];
  readonly runs: readonly ExplainedRun[];
  readonly more: boolean;
  /** They did not answer in time. */
  readonly unanswered: readonly ProcessId[];
}

/** What became of requests, whichever gateway and whichever coordinators had them. */
export interface Explain {
  /** Of a token, a client's id, a job's public id, or the id of a trace; with what was called for it. Never rejects. */
  of(about: string, limit: number): Promise<Result<Known>>;
  answered(message: ExplainedMessage): void;
  /** Ends all that waits. */
  close(): void;
}

export interface ExplainParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  /** What this process knows. */
  readonly own: (question: ExplainMessage) => ExplainedMessage;
}

interface Round {
  readonly waitsFor: Set<ProcessId>;
  readonly answers: ExplainedMessage[];
  readonly done: () => void;
  timer: Timer | undefined;
}

export function createExplain({ id: self, clock, mailbox, directory, own }: ExplainParts): Explain {
  const rounds = new Map<string, Round>();
  let questions = 0;
  let calls = 0;
  let closed = false;

  const heard = (id: string, process: ProcessId) => {
    const round = rounds.get(id);
    round?.waitsFor.delete(process);
    if (round?.waitsFor.size === 0) round.done();
  };

  /** Asks all but those that were silent before; who is silent now is added to them. */
  const ask = async (
    question: Pick<ExplainMessage, 'about' | 'parents' | 'limit'>,
    silent: Set<ProcessId>,
  ): Promise<readonly ExplainedMessage[]> => {
    const message: ExplainMessage = { kind: 'explain', id: `${self}:e${++questions}`, ...question };
    const asked = ASKED_ROLES.flatMap((role) => directory.processes(role).map(({ id }) => id));
    const waitsFor = new Set(asked.filter((id) => id !== self && !silent.has(id)));
    const answers = [own(message)];
    if (waitsFor.size === 0 || closed) return answers;
    await new Promise<void>((done) => {
      const timer = clock.at(clock.nowUs() + ROUND_MS * 1000, done);
      rounds.set(message.id, { waitsFor, answers, done, timer });
      for (const process of waitsFor) {
        mailbox.send(process, message, (reason) => {
          // One that is gone has nothing to tell any more.
          if (reason === 'gone') heard(message.id, process);
        });
      }
    });
    rounds.get(message.id)?.timer?.cancel();
    rounds.delete(message.id);
    for (const process of waitsFor) silent.add(process);
    return answers;
  };

  const find = async (about: string, limit: number): Promise<Known> => {
    const silent = new Set<ProcessId>();
    const found = new Map<string, ExplainedCall | ExplainedRun>();
    const known = new Set<string>();
    let more = false;
    let question = { about, parents: [] as readonly string[], limit };
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const news: string[] = [];
      for (const answer of await ask(question, silent)) {
        more ||= answer.more;
        for (const request of [...answer.calls, ...answer.runs]) {
          const key = `${'door' in request ? 'call' : `run ${request.process} ${request.arrivedUs}`} ${request.id}`;
          found.set(key, request);
          if (known.has(request.id)) continue;
          known.add(request.id);
          news.push(request.id);
        }
      }
      if (news.length === 0 || closed) break;
      if (found.size > FOUND_MAX) more = true;
      if (found.size > FOUND_MAX) break;
      question = { about: '', parents: news, limit: FOUND_MAX };
    }
    const all = [...found.values()];
    return {
      calls: all.filter((request): request is ExplainedCall => 'door' in request),
      runs: all.filter((request): request is ExplainedRun => !('door' in request)),
      more,
      unanswered: [...silent].sort(),
    };
  };

  return {
    async of(about, limit) {
      if (closed) return { ok: false, error: STOPPING };
      if (calls >= CALLS_MAX) return { ok: false, error: BUSY };
      calls++;
      try {
        return { ok: true, value: await find(about, limit) };
      } finally {
        calls--;
      }
    },
    answered(message) {
      const round = rounds.get(message.id);
      if (round === undefined || !round.waitsFor.has(message.process)) return;
      round.answers.push(message);
      heard(message.id, message.process);
    },
    close() {
      closed = true;
      for (const { done } of [...rounds.values()]) done();
    },
  };
}
