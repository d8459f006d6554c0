import { constants, type ServerHttp2Session } from 'node:http2';
import type { Clock } from '@nereid/runtime';

/** What `--grpc-keepalive-…`, `--grpc-http2-…` and `--grpc-max-connection-…` say. */
export interface ConnectionRules {
  /** Silence of the client, while a call is open, after which it is asked for a sign of life. */
  readonly keepalive_time_ms: number;
  /** How long that may take; longer ends the connection. */
  readonly keepalive_timeout_ms: number;
  /** Ask also while no call is open, and let clients ask us as often as while one is. */
  readonly keepalivePermitWithoutCalls: boolean;
  /** Times in a row that we ask without a frame of a call between; 0 for any number. */
  readonly pings_without_data_max: number;
  /** Between two pings of a client without a frame of a call from us between. */
  readonly ping_interval_min_ms: number;
  /** Pings that come sooner than that; one more ends the connection. 0 for any number. */
  readonly ping_strikes_max: number;
  /** How long a connection may live, give or take a tenth; 0 for any time. */
  readonly age_max_ms: number;
  /** How long calls may go on after that; 0 for any time. */
  readonly age_grace_ms: number;
}

/** gRPC's own bound of a client's pings while it has no call open. */
const IDLE_PING_INTERVAL_MIN_MS = 7_200_000;
/** Of a connection's age, so that those that began together do not end together. */
const AGE_SPREAD = 0.1;

/** What calls tell of themselves to their connection. */
export interface ConnectionCare {
  /** A frame of a call was sent. */
  sent(): void;
  callOpened(): void;
  callClosed(): void;
}

/**
 * Keeps a connection to the rules until it closes: asks a silent client for a sign of life, ends the
 * connection of one who asks us too often, and of one that is too old (gRPC A8, A9; core's
 * ping_abuse_policy.cc).
 */
export function careForConnection(session: ServerHttp2Session, rules: ConnectionRules, clock: Clock): ConnectionCare {
  const calls = { open: 0 };
  const strikes = watchPings(session, rules, clock, calls);
  const keepalive = keepAlive(session, rules, calls);
  const age = rules.age_max_ms === 0 ? undefined : endAtAge(session, rules);
  session.once('close', () => {
    keepalive.stop();
    age?.stop();
  });
  return {
    sent() {
      strikes.forgive();
      keepalive.sent();
    },
    callOpened: () => void calls.open++,
    callClosed: () => void calls.open--,
  };
}

interface Calls {
  readonly open: number;
}

function watchPings(session: ServerHttp2Session, rules: ConnectionRules, clock: Clock, calls: Calls) {
  let strikes = 0;
  let lastUs: number | undefined;
  session.on('ping', () => {
    const idle = calls.open === 0 && !rules.keepalivePermitWithoutCalls;
    const intervalUs = 1000 * (idle ? IDLE_PING_INTERVAL_MIN_MS : rules.ping_interval_min_ms);
    const nowUs = clock.nowUs();
    const soon = lastUs !== undefined && nowUs - lastUs < intervalUs;
    lastUs = nowUs;
    if (!soon || ++strikes <= rules.ping_strikes_max || rules.ping_strikes_max === 0) return;
    // Clients of gRPC ask half as often from then on where they find these words.
    goAway(session, constants.NGHTTP2_ENHANCE_YOUR_CALM, 'too_many_pings');
    setImmediate(() => session.destroy());
  });
  return {
    forgive() {
      strikes = 0;
      lastUs = undefined;
    },
  };
}

/** By Node's own timers, as the age: they keep no process alive. */
function keepAlive(session: ServerHttp2Session, rules: ConnectionRules, calls: Calls) {
  let bytesRead = 0;
  let pings = 0;
  let timer: NodeJS.Timeout | undefined;
  let waiting: NodeJS.Timeout | undefined;

  const arm = () => {
    timer = setTimeout(look, rules.keepalive_time_ms);
    timer.unref();
  };
  const look = () => {
    if (session.destroyed) return;
    const before = bytesRead;
    bytesRead = session.socket?.bytesRead ?? 0;
    const silent = bytesRead === before;
    const wanted = calls.open > 0 || rules.keepalivePermitWithoutCalls;
    const allowed = rules.pings_without_data_max === 0 || pings < rules.pings_without_data_max;
    if (silent && wanted && allowed) ping();
    else arm();
  };
  const ping = () => {
    pings++;
    waiting = setTimeout(() => session.destroy(), rules.keepalive_timeout_ms);
    waiting.unref();
    session.ping(() => {
      clearTimeout(waiting);
      if (!session.destroyed) arm();
    });
  };

  arm();
  return {
    sent() {
      pings = 0;
    },
    stop() {
      clearTimeout(timer);
      clearTimeout(waiting);
    },
  };
}

function endAtAge(session: ServerHttp2Session, rules: ConnectionRules) {
  const spread = 1 - AGE_SPREAD + 2 * AGE_SPREAD * Math.random();
  let grace: NodeJS.Timeout | undefined;
  const age = setTimeout(() => {
    goAway(session, constants.NGHTTP2_NO_ERROR, 'max_age');
    session.close();
    if (rules.age_grace_ms === 0) return;
    grace = setTimeout(() => session.destroy(), rules.age_grace_ms);
    grace.unref();
  }, rules.age_max_ms * spread);
  age.unref();
  return {
    stop() {
      clearTimeout(age);
      clearTimeout(grace);
    },
  };
}

function goAway(session: ServerHttp2Session, code: number, words: string): void {
  if (session.destroyed || session.closed) return;
  session.goaway(code, 0, Buffer.from(words));
}
