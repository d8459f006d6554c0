import { NereidError } from '@nereid/protocol';
import { DIRECTORY_KEYS, directoryScript } from './directory-script.ts';
import type { RedisConnection, RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';

/** The directory's way to Redis, which a test may delay or cut. */
export interface DirectoryLink {
  /** Where the script publishes. */
  readonly channel: string;
  /**
   * Runs the script once, as soon as Redis can be reached, with what `args` says then; undefined calls
   * it off. Rejects when the connection breaks on the way.
   */
  call(args: () => readonly string[] | undefined): Promise<unknown>;
  /** Gives up the connection that owes an answer; a new one follows. */
  reset(): void;
  /** Hears each change of any process as `run version`, while that connection lives, and again after it came back. */
  subscribe(listener: (notice: string) => void): Promise<void>;
  close(): void;
}

interface WithDirectoryScript {
  nereidDirectory(...keysAndArgs: readonly string[]): Promise<unknown>;
}

/** Two connections: one for commands, one for the subscription. `script` is replaced by tests only. */
export function createDirectoryLink(
  connector: RedisConnector,
  prefix: string,
  script = directoryScript(),
): DirectoryLink {
  const names = redisKeys(prefix);
  const keys = DIRECTORY_KEYS.map((name) => names[name]('all'));
  const channel = names.directoryChanges('all');
  const commands = connector.connect('directory');
  const changes = connector.connect('directory-changes');
  commands.client.defineCommand('nereidDirectory', { numberOfKeys: keys.length, lua: script });
  const scripted = commands.client as RedisConnection['client'] & WithDirectoryScript;

  return {
    channel,
    async call(args) {
      await commands.ready();
      const given = args();
      if (given === undefined) throw new NereidError('CANCELLED', 'called off');
      return scripted.nereidDirectory(...keys, ...given);
    },
    reset() {
      if (commands.isReady) commands.client.disconnect(true);
    },
    async subscribe(listener) {
      changes.client.on('message', (_channel: string, notice: string) => listener(notice));
      // Again at each reconnect, also where the first attempt was lost. What was published while it was away
      // comes with the next heartbeat.
      changes.watch((event) => {
        if (event === 'ready') changes.client.subscribe(channel).catch(() => {});
      });
      await changes.ready();
      await changes.client.subscribe(channel);
    },
    close() {
      commands.close();
      changes.close();
    },
  };
}
