import { randomUUID } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Controller, Get, Inject, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { isThere } from '../../files/new-file.js';
import { LocalOperations, type OperatedSystem } from '../../operations/local.js';
import { OperationRefused } from '../../rebuilds/rebuilds.js';
import { goneSignal } from '../audit/event-streams.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { type GuardedRequest } from '../auth/principal.js';
import { acceptedOf, readQuery } from '../requests.js';
import { NoQuery } from '../schemas.js';
import { operatorOf } from './operator.js';
import { SYSTEM } from './operations.controller.js';

/** https://www.iana.org/assignments/media-types/application/vnd.sqlite3 */
const SQLITE = 'application/vnd.sqlite3';

/** What the names of files begin with that are sent and then removed. */
const DOWNLOAD = 'download-';

/** Backups of an embedded event log, downloaded: what `plants backup` makes, with the checksum that it holds. */
@Controller('operations/backup')
@UseGuards(BearerGuard)
@Scopes('plants:operate')
export class BackupController {
  #isBusy = false;

  constructor(@Inject(SYSTEM) private readonly system: OperatedSystem) {
    // What a process has left that was killed.
    for (const name of isThere(system.dataDir) ? readdirSync(system.dataDir) : [])
      if (name.startsWith(DOWNLOAD)) rmSync(join(system.dataDir, name), { force: true });
  }

  @Get()
  async backup(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    acceptedOf(request, [SQLITE]);
    readQuery(request, NoQuery);
    if (request.method === 'HEAD') {
      await reply.type(SQLITE).send(Readable.from([]));
      return;
    }
    if (this.#isBusy) throw new OperationRefused('a backup is being made already: wait for its end');
    this.#isBusy = true;
    try {
      const file = await this.#make(request, reply);
      // Once it is open it needs no name: nothing of it is left, whatever happens to this process.
      const handle = await open(file);
      rmSync(file);
      const bytes = (await handle.stat()).size;
      await reply.type(SQLITE).header('content-length', bytes).send(handle.createReadStream());
    } finally {
      this.#isBusy = false;
    }
  }

  async #make(request: GuardedRequest, reply: FastifyReply): Promise<string> {
    const file = join(this.system.dataDir, `${DOWNLOAD}${randomUUID()}`);
    const made = new LocalOperations(this.system, operatorOf(request)).backup(
      file,
      goneSignal(request, reply),
    );
    for (;;) if ((await made.next()).done) return file;
  }
}
