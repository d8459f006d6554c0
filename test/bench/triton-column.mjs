/** The real Triton with its Python backend; its C++ backends are faster and not in the package that can be installed here. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../free-ports.mjs';
import { startRival, whenReady } from './rivals/rival-process.mjs';
import { v2Request } from './rivals/v2-wire.mjs';
import { writeTritonModels } from './triton/models.mjs';

const SCRIPT = fileURLToPath(new URL('./triton/triton.sh', import.meta.url));
const DEFAULT_VENV = fileURLToPath(new URL('./triton/venv', import.meta.url));

const environment = () => process.env.ORACLE_VENV ?? DEFAULT_VENV;

export const TRITON = {
  name: 'triton',
  title: 'Triton (Python backend)',
  serves: ({ jobs }) => jobs !== true,
  missing: async () =>
    existsSync(join(environment(), 'bin/python'))
      ? undefined
      : 'test/bench/triton/setup.sh installs it, or ORACLE_VENV names its environment',
  async start({ models, port, place }) {
    const repository = join(place, 'triton-models');
    writeTritonModels(models, repository);
    const [grpcPort, metrics] = await freePorts(2);
    const flags = [`--http-port=${port}`, `--grpc-port=${grpcPort}`, `--metrics-port=${metrics}`, '--log-info=false'];
    const triton = startRival(SCRIPT, [repository, ...flags], { ORACLE_VENV: environment() });
    return whenReady({ port, grpcPort, path: '/v2/health/ready', processes: { triton } });
  },
  request: v2Request,
};
