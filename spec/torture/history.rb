# frozen_string_literal: true

require_relative "chronicle"
require_relative "delays"

module Torture
  # One call, from the journal of its lane; times on Clock, spans in nanoseconds. Nil: that did not
  # happen.
  #   asked          before the call
  #   entered, left  first and last in the block; the release follows left
  #   ended          after the call; outcome: its result
  #   valid_until    of the lease, at the last look; at_first: on entry
  #   queued         known to be in the queue from here on
  #   downgraded     when a writer asked to become a reader
  #   waited, held   when the call was last seen in the queue, or as the holder
  #   seen           when it was first seen in the queue
  #   unreleased     when it learnt that its release failed; unextended: that an extension did
  #   lost           [when it learnt that the lease is lost, end of the lease as known then], ...
  #   handed         did it dump its lease? adopts: the fence of the lease that it adopts
  #   watched        is its lease renewed in the background, so that its loss is told?
  # A request for several keys is as many calls.
  Call =
    Struct.new(
      :life, :lane, :number, :way, :key, :asked, :wait, :ttl, :interrupt, :entered, :fence,
      :at_first, :valid_until, :left, :ended, :outcome, :queued, :downgraded, :waited, :held, :seen,
      :unreleased, :unextended, :lost, :handed, :adopts, :watched, keyword_init: true
    ) do
      def to_s = "worker #{life} lane #{lane} call #{number}, #{way.name} #{key}"

      def child? = life.include?("c")
    end

  # Everything known about a run.
  History = Struct.new(:calls, :chronicle, :delays, :findings, :counts, keyword_init: true) do
    def life(call) = chronicle.lives[call.life]

    # The part of from..to in which the worker could not run because of its own work or that of
    # others on this machine.
    def excused(call, from, to)
      delays.of(call.life, from, to)
    end

    # Was all of the worker kept from running for long at a stretch?
    def stalled?(call, from, to)
      delays.stalled?(call.life, from, to)
    end

    # How much of from..to the server, or this machine, was too busy to answer a look.
    def slow(from, to)
      chronicle.slow.sum { |began, over| [[over, to].min - [began, from].max, 0].max }
    end

    # The disturbances of this worker, its connections or the server in from..to: [kind, from, to].
    def suffered(call, from, to)
      life = life(call) or return []
      { stopped: life.stops, cut: life.cuts, down: chronicle.downs,
        dark: chronicle.darks.fetch(life.slot, []) }.flat_map do |what, spans|
        spans.filter_map do |began, over|
          [what, began, over] if began < to && from < recovered(call, over)
        end
      end
    end

    # Was this waiter undisturbed in from..to, and did it live to tell? (Of a forked child nothing
    # is known.)
    def undisturbed?(call, from, to)
      !call.child? && !call.ended.nil? && suffered(call, from, to).empty?
    end

    # When the server forgot this key in from..to; all: only if it forgot the lock itself.
    def oblivions(key, from, to, all: false)
      chronicle.oblivions.select do |oblivion|
        concerns = oblivion.key.nil? || (!all && oblivion.key == key)
        concerns && oblivion.from < to && from < oblivion.to
      end
    end

    # All disturbances of any worker or the server: [from, to].
    def disturbances
      @disturbances ||= [*chronicle.downs, *chronicle.darks.values.flatten(1),
                         *chronicle.lives.each_value.flat_map { |life| disturbances_of(life) }]
    end

    private

    # The moment when connections have been made again.
    def recovered(call, over) =
      over + History::RECOVERY + excused(call, over, over + History::RECOVERY)

    def disturbances_of(life)
      [*life.stops, *life.cuts, *([[life.died - 1, life.died]] if life.killed)]
    end
  end

  History::RECOVERY = SECOND / 4
end
