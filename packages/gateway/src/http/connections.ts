import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { STOPPING } from '@nereid/protocol';
import { refuseOnSocket } from './client-error.ts';
import { currentAnswer } from './current-answer.ts';

/** The connections of a server. */
export interface Connections {
  /** Those that HTTP is spoken on. */
  readonly open: ReadonlySet<Socket>;
  /**
   * Ends each without a whole request on it. Node would wait for what has sent nothing or a part of a
   * request, as long as that may take to come, so one slow client would hold up every stop.
   */
  endIdle(): void;
  /** Ends all. */
  cut(): void;
}

/** `opened` is called at each new one. */
export function trackConnections(server: Server, tls: boolean, opened: () => void): Connections {
  const open = new Set<Socket>();
  /** Over TLS, those that have not agreed on it yet. */
  const agreeing = new Map<string, Socket>();

  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket);
    if (!tls) add(socket);
    else {
      agreeing.set(peer, socket);
      socket.once('close', () => {
        if (agreeing.get(peer) === socket) agreeing.delete(peer);
      });
    }
  });
  if (tls) {
    server.on('secureConnection', (socket: Socket) => {
      agreeing.delete(peerOf(socket));
      add(socket);
    });
  }

  const add = (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    opened();
  };

  const endAgreeing = () => {
    for (const socket of agreeing.values()) socket.destroy();
  };

  return {
    open,
    endIdle() {
      endAgreeing();
      for (const socket of open) endUnlessRunning(socket);
    },
    cut() {
      endAgreeing();
      for (const socket of open) socket.destroy();
    },
  };
}

/** What tells a connection from all others that are open; the same for its TLS as for what carries it. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function endUnlessRunning(socket: Socket): void {
  const current = currentAnswer(socket);
  if (current === null) socket.destroySoon();
  else if (!current.req.complete && !current.headersSent) refuseOnSocket(socket, STOPPING);
}
