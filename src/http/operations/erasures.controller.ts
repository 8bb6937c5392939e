import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { ErasureGate } from '../../erasure/gate.js';
import { type OperatedSystem } from '../../operations/local.js';
import { Problem } from '../problem.js';
import { type Asked, Handles } from '../route.js';
import { erasureRoutes } from './erasure-routes.js';
import { operationsOf } from './operator.js';
import { SYSTEM } from './operations.controller.js';

/** Erasures of owners. An order is recorded in the log; a process with the role auditor carries it out. */
@Controller()
export class ErasuresController {
  constructor(
    @Inject(SYSTEM) private readonly system: OperatedSystem,
    private readonly gate: ErasureGate,
  ) {}

  @Handles(erasureRoutes.orderErasure)
  async order(asked: Asked<typeof erasureRoutes.orderErasure>, reply: FastifyReply) {
    const erasure = await operationsOf(this.system, asked).erase(asked.body);
    await this.gate.look();
    reply.header('location', `erasures/${erasure}`);
    return { erasure };
  }

  @Handles(erasureRoutes.countOwned)
  async count(asked: Asked<typeof erasureRoutes.countOwned>) {
    return { events: await operationsOf(this.system, asked).countOwned(asked.body.owner) };
  }

  @Handles(erasureRoutes.readErasure)
  async show(asked: Asked<typeof erasureRoutes.readErasure>) {
    const found = await operationsOf(this.system, asked).erasure(asked.params.id);
    if (!found) throw new Problem('erasure_not_found', 'There is no such erasure.');
    return found;
  }
}
