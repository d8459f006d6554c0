/** For tests: jobs over HTTP on a real Redis, and who takes them. */
import { decodeJobData, encodeJobResult } from '@nereid/protocol';
import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, createJobQueues, type JobQueues, type JobTaker, type TakenJob, timing } from '@nereid/transport';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { createJobs } from '../jobs.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1e6, bytes_max: 1e6 };

export interface JobsFixture {
  readonly http: HttpFixture['http'];
  readonly queues: JobQueues;
  /** Jobs whose owner was told that they are cancelled. */
  readonly cancelled: string[];
  /** Called at each of these. */
  onCancel: (id: string) => void;
  /** Takes the model's jobs as a coordinator does. */
  take(of: string, run: (job: TakenJob, taker: JobTaker) => void): JobTaker;
  /** The outputs are the inputs. */
  echo(of: string): JobTaker;
  close(): Promise<void>;
}

/** A gateway of identity models of these names on the Redis at `url`; `seen`: the queues as its jobs see them. */
export async function jobsFixture(
  url: string,
  names: readonly string[],
  seen = (queues: JobQueues) => queues,
): Promise<JobsFixture> {
  const clock = systemClock();
  const connector = connectRedis(url, { name: 'gateway:1' });
  const queues = createJobQueues({ connector, timing: timing(), clock, log: createLog({ level: 'silent' }) });
  const models = names.map((name) => modelRecord(identity(name, 'FP32')));
  const { directory, gateway } = await httpFixture({ models });
  const takers: JobTaker[] = [];
  const cancelled: string[] = [];
  const jobs = createJobs({
    queues: seen(queues),
    directory,
    clock,
    gateway: {
      ...gateway,
      cancelJob(_model, id) {
        cancelled.push(id);
        fixture.onCancel(id);
      },
    },
  });
  const { http } = await httpFixture({ models, http: { jobs, gateway } });
  const fixture: JobsFixture = {
    http,
    queues,
    cancelled,
    onCancel: () => {},
    take(of, run) {
      const taker: JobTaker = queues.take(of, {
        by: 'co-1',
        token: () => 'co-1:1',
        room: () => 10,
        taken(job) {
          run(job, taker);
          return true;
        },
        lost: () => {},
      });
      takers.push(taker);
      return taker;
    },
    echo: (of) =>
      fixture.take(of, ({ id, data }, taker) => {
        const { request, respond } = decodeJobData(data, { modelName: of, limits: LIMITS });
        const outputs = request.inputs.map((input) => ({ ...input, name: 'OUTPUT' }));
        const response = { modelName: of, modelVersion: '1', id: request.id, parameters: {}, outputs };
        void taker.complete(id, encodeJobResult(response, respond));
      }),
    async close() {
      for (const taker of takers) await taker.close();
      await http.close(100);
      await queues.close();
      connector.close();
    },
  };
  return fixture;
}
