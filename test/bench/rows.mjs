/**
 * What is asked of each server. A row is a model; its cells say how it is asked: an encoding, a number of clients, and
 * for raw session.run the batches that are run beside them. `quick` cells are those of `--quick`. `jobs`: each request
 * is a job, submitted and waited for.
 */

const binary = (concurrency, rest = {}) => ({ encoding: 'binary', concurrency, ...rest });
const json = (concurrency, rest = {}) => ({ encoding: 'json', concurrency, ...rest });
const grpc = (concurrency, rest = {}) => ({ encoding: 'grpc', concurrency, ...rest });
const quick = { quick: true };

export const ROWS = {
  add_sub: {
    title: '`add_sub`, no-op',
    model: 'add_sub',
    cells: [
      binary(1, { ...quick, raw: [1] }),
      binary(8),
      binary(32),
      binary(64, quick),
      json(1),
      json(8),
      json(32),
      json(64, quick),
      grpc(1),
      grpc(64),
    ],
  },
  mlp: {
    title: '`mlp` 784-512-512-10',
    model: 'mlp',
    cells: [binary(1, { raw: [1] }), binary(32, quick), json(64)],
  },
  mlp_1024x8: {
    title: '`mlp_1024x8`, 8 layers of 1024 (synthetic)',
    model: 'mlp_1024x8',
    cells: [binary(1, { raw: [1] }), binary(32, { ...quick, raw: [1, 16] })],
  },
  minilm: {
    title: 'MiniLM int8, 32 tokens',
    model: 'minilm',
    cells: [binary(1, { raw: [1] }), binary(32, { ...quick, raw: [1, 8] })],
  },
  silero_vad: {
    title: '`silero_vad`, one frame',
    model: 'silero_vad',
    cells: [binary(1, { raw: [1] }), binary(32, quick)],
  },
  identity_600k: {
    title: 'identity of 600 KB',
    model: 'identity_600k',
    cells: [binary(1, { raw: [1] }), binary(8), binary(32, quick)],
  },
  sleep10: {
    title: 'a model that sleeps 10 ms',
    model: 'sleep10',
    cells: [binary(1), binary(32, quick)],
  },
  jobs: {
    title: 'jobs of `add_sub`, result waited for',
    model: 'add_sub',
    jobs: true,
    cells: [json(1), json(32, quick)],
  },
};
