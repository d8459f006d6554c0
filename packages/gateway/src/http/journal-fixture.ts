/** An HTTP server with recordings over a gateway fixture; only tests import this. */
import { JOURNAL_DEFAULTS } from '@nereid/config';
import type { JournalReader } from '@nereid/transport';
import { doorFixture } from '../door-fixture.ts';
import { type FixtureOptions, gatewayFixture } from '../gateway-fixture.ts';
import { createJournal } from '../journal.ts';
import type { HttpFixture } from './http-fixture.ts';
import { createHttpServer } from './server.ts';

/** The worker `wk-1` lives. */
export async function journalFixture(store: JournalReader, options: FixtureOptions): Promise<HttpFixture> {
  const fixture = await gatewayFixture(options);
  const { directory, gateway } = fixture;
  await directory.register({ id: 'wk-1', role: 'worker', draining: false });
  const door = doorFixture(fixture);
  const { clock, log } = door;
  const journal = createJournal({ store, directory, gateway, clock, log, limits: JOURNAL_DEFAULTS });
  return { ...fixture, http: createHttpServer({ ...door, maxInputBytes: 1_000_000, journal }) };
}
