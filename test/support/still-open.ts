/** The parts of Node's diagnostic report that matter here: https://nodejs.org/api/report.html */
interface Report {
  readonly libuv: readonly LibuvHandle[];
  readonly workers: readonly { readonly header: { readonly threadId: number } }[];
}

interface LibuvHandle {
  readonly type: string;
  readonly is_active: boolean;
  readonly is_referenced: boolean;
  readonly pid?: number;
  readonly localEndpoint?: { readonly port?: number } | null;
  readonly remoteEndpoint?: { readonly port?: number } | null;
}

/**
 * Lists what keeps this process alive, a line each: sockets with their ports, processes with their ids, worker threads.
 */
export const stillOpen = (): string[] => {
  Object.assign(process.report, { excludeNetwork: true }); // else it asks the DNS for names of hosts, and waits
  const { libuv, workers } = process.report.getReport() as unknown as Report;
  const kept = libuv.filter((handle) => handle.is_active && handle.is_referenced && handle.type !== 'async');
  return [
    ...kept.map(({ type, pid, localEndpoint, remoteEndpoint }) =>
      [type, pid, localEndpoint?.port, remoteEndpoint?.port].filter((part) => part !== undefined).join(' '),
    ),
    ...workers.map(({ header }) => `worker thread ${header.threadId}`),
  ];
};
