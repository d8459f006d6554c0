/** The real transport and directory over the simulated Redis keep the contracts that they keep over a real one. */
import { createLog, seededRandom } from '@nereid/runtime';
import { type BlobOptions, createRedisDirectory, createRedisTransport, timing } from '@nereid/transport';
import { afterAll } from 'vitest';
import { directoryContract } from '../../packages/transport/src/directory-contract.ts';
import type { MailboxLimits } from '../../packages/transport/src/mailbox.ts';
import { mailboxContract } from '../../packages/transport/src/mailbox-contract.ts';
import { createSimConnector } from './sim-connector.ts';
import { createSimRedis } from './sim-redis.ts';
import { simScripts } from './sim-scripts.ts';
import { createSimWorld } from './sim-world.ts';
import { switchOff } from './switches.ts';

const STEP_US = 2_000;
const BLOBS: BlobOptions = { name: 'bl-1', bytes_max: 1e9, inline_bytes_max: 0, filesReach: () => false };

let over = false;
afterAll(() => {
  over = true;
});

/** One process whose virtual time goes on by itself. */
function lane() {
  const world = createSimWorld();
  const process = world.process('p', -7_000_000);
  const connector = createSimConnector({
    world,
    process,
    random: seededRandom(1),
    redis: createSimRedis(world),
    scripts: simScripts(switchOff().scripts),
    network: { latencyUsMin: 50, latencyUsMax: 500, slowShare: 0, slowUsMax: 0, noticeLossShare: 0.3 },
  });
  const goOn = async () => {
    while (!over) {
      await world.run(world.nowUs() + STEP_US);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  void goOn();
  return { connector, prefix: 'nereid', log: createLog({ level: 'silent' }), clock: process.clock, timing: timing() };
}

function simulated(limits: MailboxLimits, blobs: BlobOptions) {
  const made = lane();
  const nextTurn = (callback: () => void) => void made.clock.at(made.clock.nowUs(), callback);
  return createRedisTransport({ ...made, limits, blobs, nextTurn });
}

mailboxContract('simulated', (limits: MailboxLimits) => simulated(limits, BLOBS));

mailboxContract('simulated, without blobs', (limits: MailboxLimits) =>
  simulated(limits, { ...BLOBS, inline_bytes_max: Number.POSITIVE_INFINITY }),
);

directoryContract('simulated', async () => {
  const directory = createRedisDirectory<{ readonly text: string }>({
    ...lane(),
    encode: (record) => record.text,
    decode: (text) => ({ text }),
  });
  await directory.start();
  return directory;
});
