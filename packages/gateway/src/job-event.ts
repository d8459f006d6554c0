/** The news of a job as its clients see them. */
import { type DecodedRequest, isStreamProgress, readableOutputs } from '@nereid/protocol';
import type { JobNews } from '@nereid/transport';
import { jobJson } from './job-json.ts';
import type { Jobs } from './jobs.ts';
import { STORED_LIMITS } from './stored-limits.ts';

export interface JobEvent {
  /** Undefined for what is no event of the queue, so that a client goes on from the one before. */
  readonly id: string | undefined;
  readonly name: 'state' | 'progress' | 'output' | 'end';
  readonly data: unknown;
}

/** `forms`: how the job asks for its outputs. */
export function jobEvent(
  news: Exclude<JobNews, { readonly kind: 'unknown' | 'quiet' }>,
  publicId: string,
  forms: Pick<DecodedRequest, 'outputs' | 'binaryDefault'>,
  jobs: Pick<Jobs, 'expiry'>,
): JobEvent {
  switch (news.kind) {
    case 'present':
      return { id: undefined, name: 'state', data: jobJson(news.job, jobs.expiry(news.job)) };
    case 'state': {
      const at = new Date(news.atMs).toISOString();
      return { id: news.event, name: 'state', data: { id: publicId, state: news.state, at } };
    }
    case 'progress':
      return isStreamProgress(news.progress)
        ? { id: news.event, name: 'output', data: inForms(news.progress, forms) }
        : { id: news.event, name: 'progress', data: news.progress };
    case 'end': {
      const { job, state = 'removed' } = news;
      const data = job === undefined ? { id: publicId, state } : jobJson(job, jobs.expiry(job));
      return { id: news.event, name: 'end', data };
    }
  }
}

/** Outputs as in the result: JSON but where binary data are asked for, which are base64 here. */
function inForms(
  progress: Readonly<Record<string, unknown>>,
  { outputs, binaryDefault }: Pick<DecodedRequest, 'outputs' | 'binaryDefault'>,
): unknown {
  if (progress.outputs === undefined) return progress;
  const isBinary = (name: string) => outputs.find((output) => output.name === name)?.binary ?? binaryDefault;
  return { ...progress, outputs: readableOutputs(progress.outputs, isBinary, STORED_LIMITS) };
}
