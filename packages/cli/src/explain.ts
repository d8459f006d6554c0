import type { ExplainedJson } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { explainStory } from './explain-story.ts';
import { type CallHost, callServer } from './server-call.ts';

export interface ExplainOptions {
  readonly url: string;
  readonly json: boolean;
  /** Requests of that id, the newest first; the server's own default where it is not given. */
  readonly limit?: string;
  readonly id: string;
}

/** `nereid explain`: what became of the requests of an id, as text or as JSON. */
export async function explain({ url, json, limit, id }: ExplainOptions, host: CallHost): Promise<ExitCode> {
  const call = {
    command: 'explain',
    url,
    method: 'GET',
    path: `/nereid/v1/explain/${encodeURIComponent(id)}`,
    member: 'requests',
    query: { limit },
  } as const;
  const answer = await callServer(call, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`${json ? JSON.stringify(answer.body) : explainStory(answer.body as ExplainedJson)}\n`);
  return EXIT_CODE.stopped;
}
