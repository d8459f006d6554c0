/** Memory over many requests. */
import { join } from 'node:path';
import { COLUMNS } from './columns.mjs';
import { startServers, writeModels } from './engine.mjs';
import { treeResidentBytes } from './proc-cpu.mjs';
import { samplesOf, writeRequests } from './requests.mjs';
import { turn } from './turns.mjs';

const REQUESTS = 200_000;
const PORTIONS = 40;
const CLIENTS = 32;
const GROWTH_MAX = 0.03;
const MODEL = 'add_sub';
/** No portion takes longer, however busy the machine. */
const PORTION_S_MAX = 300;
/** Each process' memory goes up and down with its collections, by a tenth and more: a portion counts by the mean of many looks. */
const LOOK_MS = 50;
const MIB = 2 ** 20;

/** The sum of resident memory of all processes grows by less than 3 % over the second half of 200,000 requests. */
export async function memoryBar(mode, { folder, generator, say }) {
  const column = COLUMNS.find(({ name }) => name === mode);
  const models = writeModels(join(folder, 'models'));
  const samples = await samplesOf(models, MODEL);
  const { servers, notRun } = await startServers([column], { models, folder, say });
  const [server] = servers;
  if (server === undefined) throw new Error(notRun[mode]);
  try {
    const requests = writeRequests({ column, row: { model: MODEL }, encoding: 'binary', samples, folder });
    const resident = [];
    let sent = 0;
    while (sent < REQUESTS) {
      const count = REQUESTS / PORTIONS;
      const looks = [];
      const looking = setInterval(() => looks.push(treeResidentBytes(server.pids)), LOOK_MS);
      const figures = await turn({
        ...{ generator, server, requests, concurrency: CLIENTS, count, file: join(folder, 'answers') },
        ...{ seconds: PORTION_S_MAX, warmUp: 0 },
      }).finally(() => clearInterval(looking));
      if (figures.errors > 0) throw new Error(`${figures.errors} errors (${figures.last_error})`);
      sent += figures.all;
      looks.push(treeResidentBytes(server.pids));
      const byName = Object.fromEntries(
        Object.keys(looks[0]).map((name) => [name, looks.reduce((sum, look) => sum + look[name], 0) / looks.length]),
      );
      const bytes = Object.values(byName).reduce((sum, each) => sum + each, 0);
      resident.push({ sent, bytes });
      const parts = Object.entries(byName).map(([name, each]) => `${name} ${(each / MIB).toFixed(1)}`);
      say(`  ${mode}: ${sent} requests, ${(bytes / MIB).toFixed(1)} MiB (${parts.join(', ')})`);
    }
    const growth = growthOf(resident.filter((each) => each.sent >= REQUESTS / 2));
    const bar = `less than ${GROWTH_MAX * 100} %`;
    const what = `memory over the second half of ${REQUESTS} requests, ${mode}`;
    return [{ what, figure: `${(growth * 100).toFixed(2)} %`, bar, holds: growth < GROWTH_MAX }];
  } finally {
    await server.stop();
  }
}

/** Along the straight line through all portions (least squares). */
function growthOf(looks) {
  const mean = (read) => looks.reduce((sum, look) => sum + read(look), 0) / looks.length;
  const [sentMean, bytesMean] = [mean(({ sent }) => sent), mean(({ bytes }) => bytes)];
  const slope =
    mean(({ sent, bytes }) => (sent - sentMean) * (bytes - bytesMean)) / mean(({ sent }) => (sent - sentMean) ** 2);
  const at = (sent) => bytesMean + slope * (sent - sentMean);
  return at(looks.at(-1).sent) / at(looks[0].sent) - 1;
}
