/** onnxruntime-node's session.run in a process of its own: what any server could reach with one thread. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HARNESS = fileURLToPath(new URL('./raw-run.mjs', import.meta.url));

/**
 * Starts the harness. `load` takes a model's requests as `{ inputs, outputs }`; `turn` runs batches of them and gives
 * the figures of a turn, requests per second and milliseconds per run.
 */
export function startRaw(models) {
  const child = fork(HARNESS, { serialization: 'advanced' });
  const ended = once(child, 'exit').then(() => ({ failed: 'the harness ended' }));
  const ask = async (message) => {
    const answered = once(child, 'message');
    child.send(message);
    const answer = await Promise.race([answered.then(([first]) => first), ended]);
    if (answer.failed !== undefined) throw new Error(`raw session.run: ${answer.failed}`);
    return answer;
  };
  return {
    pid: child.pid,
    load: (model, samples) => ask({ path: join(models, model, '1', 'model.onnx'), samples }),
    async turn({ batch, seconds, warmUp }) {
      const { cpu_s: cpuS, wrong, ...figures } = await ask({ batch, seconds, warmUp });
      if (wrong !== undefined) throw new Error(`raw session.run: ${wrong}`);
      return { ...figures, errors: 0, cpu_us: { run: (cpuS * 1e6) / figures.n } };
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.disconnect();
      await ended;
    },
  };
}
