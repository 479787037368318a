# frozen_string_literal: true

require_relative "world"

module Model
  # Visits every state that a scenario can reach, breadth first. So it finds each violation with
  # the fewest steps. A state is identified by its key, which is a digest.
  class Explorer
    Outcome =
      Struct.new(
        :scenario, :states, :steps, :seconds, :idle, :violation, :trace, :cycle, keyword_init: true
      )

    def initialize(scenario, rules)
      @scenario = scenario
      @rules = rules
    end

    def run
      start = cpu_seconds
      @origin = World.new(@scenario, @rules)
      @seen = { @origin.key => 0 }
      @parents = [nil]
      @steps = @idle = 0
      @arrivals = [[]] if @scenario.always # for each state, the states that lead to it
      @good = []
      violation, trace, cycle = explore || starvation
      Outcome.new(
        scenario: @scenario, states: @seen.size, steps: @steps, seconds: cpu_seconds - start,
        idle: @idle, violation: violation, trace: trace, cycle: cycle
      )
    end

    private

    def cpu_seconds = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

    # Returns the first violation and its steps, or nil.
    def explore
      level = [@origin]
      id = -1
      until level.empty?
        following = []
        level.each do |world|
          id += 1
          next if world.over?

          world.steps.each do |step|
            @steps += 1
            successor = world.step(step)
            if successor.violation
              return successor.violation, tell(path(id)) { |candidate| candidate.violation }
            end

            following << successor if visit(successor, id)
          end
        end
        level = following
      end
    end

    # Records how this state was reached. Returns true if the state is new.
    def visit(world, from)
      key = world.key
      id = @seen[key]
      fresh = id.nil?
      if fresh
        id = @seen[key] = @seen.size
        @parents << from
        @idle = world.idle if world.idle > @idle
        @good << id if @arrivals && world.clients[@scenario.always].phase == :holding
        @arrivals << [] if @arrivals
      end
      @arrivals[id] << from if @arrivals
      fresh
    end

    # Searches for a state from which one client can never get the lock again. Returns the steps
    # to that state, and a cycle of steps in which the client keeps trying.
    def starvation
      return unless @arrivals

      hopeful = Array.new(@seen.size, false)
      @good.each { |id| hopeful[id] = true }
      pending = @good.dup
      while (id = pending.pop)
        @arrivals[id].each { |from| hopeful[from] = true and pending << from unless hopeful[from] }
      end
      lost = hopeful.index(false) or return

      circle = circle_from(lost)
      story = tell(path(lost))
      [
        [:starvation, "from here on client #{@origin.name(@scenario.always)} can try for ever"],
        story, circle
      ]
    end

    # A cycle of steps from a hopeless state back to itself, in which the client tries to get the
    # lock.
    def circle_from(lost)
      world = tell(path(lost), world_only: true)
      world.story = []
      been = {}
      until been[world.key]
        been[world.key] = world.story.size
        world = most_patient_step(world)
      end
      world.story.drop(been[world.key])
    end

    # Takes a poll if one is possible. Otherwise, lets time pass if possible.
    def most_patient_step(world)
      steps = world.steps
      step =
        steps.find { |name, _| name == :poll } || steps.find { |name, _| name == :tick } ||
        steps.first
      world.step(step)
    end

    # The keys of the states on the path to this state.
    def path(id)
      keys = @seen.keys
      path = []
      while id
        path.unshift(keys[id])
        id = @parents[id]
      end
      path
    end

    # Repeats the steps of a path, and records the events. If a block is given, this takes one
    # more step, which the block chooses.
    def tell(path, world_only: false, &last)
      world = @origin.dup
      world.story = []
      path.drop(1).each { |key| world = told_step(world) { |candidate| candidate.key == key } }
      world = told_step(world, &last) if last
      world_only ? world : world.story
    end

    def told_step(world)
      before = world.story
      world.steps.each do |step|
        world.story = before.dup
        successor = world.step(step)
        return successor if yield successor
      end
    end
  end
end
