import { randomUUID } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { isThere } from '../../runtime/new-file.js';
import { type OperatedSystem } from '../../operations/local.js';
import { OperationRefused } from '../../commands/rebuilds.js';
import { goneSignal } from '../audit/event-streams.js';
import { InFlightLimit } from '../in-flight-limit.js';
import { type Asked, HandlesAndSends } from '../route.js';
import { operationRoutes, SQLITE } from './operation-routes.js';
import { operationsOf } from './operator.js';
import { SYSTEM } from './operations.controller.js';

/** Beginning of the names of files that are sent and then removed. */
const DOWNLOAD = 'download-';

/** Backups of an embedded event log, downloaded: what `plants backup` makes, with the checksum that it holds. */
@Controller()
export class BackupController {
  readonly #limit = new InFlightLimit(
    1,
    () => new OperationRefused('a backup is being made already: wait for its end'),
  );

  constructor(@Inject(SYSTEM) private readonly system: OperatedSystem) {
    // Removes unfinished downloads of a process that was killed.
    for (const name of isThere(system.dataDir) ? readdirSync(system.dataDir) : [])
      if (name.startsWith(DOWNLOAD)) rmSync(join(system.dataDir, name), { force: true });
  }

  @HandlesAndSends(operationRoutes.downloadBackup)
  async backup(asked: Asked<typeof operationRoutes.downloadBackup>, reply: FastifyReply) {
    if (asked.request.method === 'HEAD') {
      await reply.type(SQLITE).send(Readable.from([]));
      return;
    }
    await this.#limit.run('', async () => {
      const file = await this.#make(asked, reply);
      // Once it is open it needs no name: nothing of it is left, also if this process is killed.
      const handle = await open(file);
      rmSync(file);
      const bytes = (await handle.stat()).size;
      await reply.type(SQLITE).header('content-length', bytes).send(handle.createReadStream());
    });
  }

  async #make(asked: Asked<typeof operationRoutes.downloadBackup>, reply: FastifyReply): Promise<string> {
    const file = join(this.system.dataDir, `${DOWNLOAD}${randomUUID()}`);
    const made = operationsOf(this.system, asked).backup(file, goneSignal(reply.raw));
    for (;;) if ((await made.next()).done) return file;
  }
}
