# frozen_string_literal: true

# Checks how processes interact through the file of a local store. The store must keep its
# promises in every scenario, whichever process dies at any step. Each rule must be necessary.
#
#   ruby spec/model/local/model.rb
#   ruby spec/model/local/model.rb --without RULE   shows what happens without a rule

require_relative "world"

module LocalModel
  PROMISES = [
    Scenario.new(title: "three processes", processes: 3),
    Scenario.new(title: "three, of which two die", processes: 3, deaths: 2),
    Scenario.new(
      title: "three, one dies, one loses patience", processes: 3, deaths: 1, quitters: 1
    ),
    Scenario.new(
      title: "two, and the lock is broken, by one who may die", processes: 2, breaks: 1, deaths: 1
    ),
    Scenario.new(
      title: "two, again and again, and the file is renamed", processes: 2, rounds: 2, moves: 1
    ),
    Scenario.new(title: "three, the file is renamed, one dies", processes: 3, moves: 1, deaths: 1),
    Scenario.new(
      title: "three, one is stopped, another one dies", processes: 3, stops: 1, deaths: 1
    ),
    Scenario.new(title: "three, two are stopped", processes: 3, stops: 2)
  ].freeze

  # For each rule, the violation that it prevents, and the number of the scenario that shows it.
  BROKEN = {
    ring_first: [:swallowed, 3],
    heed_section: [:swallowed, 3],
    repair: [:stuck, 1],
    watch_holders: [:swallowed, 1],
    watch_before: [:swallowed, 1],
    look_at_once: [:swallowed, 1],
    check_place: [:split, 4],
    attend_place: [:split, 4],
    wait_anew: [:swallowed, 4],
    hand_over: [:kept_back, 6],
    pass_over: [:kept_back, 6]
  }.freeze

  # Visits every state that a scenario can reach, breadth first. A violation that it finds therefore
  # has the fewest possible steps.
  class Search
    attr_reader :states

    def initialize(scenario, rules)
      @scenario = scenario
      @rules = rules
    end

    # @return [Array, nil] the first violation and its steps; nil: there is no violation
    def run
      origin = World.new(@scenario, @rules)
      @came = { origin.key => nil }
      level = [origin]
      until level.empty?
        level = level.flat_map do |world|
          steps = world.steps
          return [world.violation, story(world.key, nil)] if world.violation

          steps.filter_map do |step|
            following = world.step(step)
            return [following.violation, story(world.key, step)] if following.violation

            key = following.key
            next if @came.key?(key)

            @came[key] = [world.key, step]
            following
          end
        end
      end
      nil
    ensure
      @states = @came.size
    end

    private

    def story(key, last)
      steps = [last].compact
      while (from = @came[key])
        steps.unshift(from[1])
        key = from[0]
      end
      world = World.new(@scenario, @rules)
      world.story = told = []
      steps.each do |step|
        world = world.step(step)
      end
      world.steps
      told
    end
  end

  class << self
    def rules(*off) = RULES.keys.to_h { |rule| [rule, !off.include?(rule)] }

    def check
      promised = PROMISES.map { |scenario| promise(scenario) }
      needed = BROKEN.map { |rule, (property, number)| need(rule, property, PROMISES[number]) }
      exit((promised + needed).all?)
    end

    def without(rule)
      _, number =
        BROKEN.fetch(rule) { abort "there is no such rule; they are #{RULES.keys.join(", ")}" }
      puts "Without the rule: #{RULES[rule]}", "Scenario: #{PROMISES[number].title}", ""
      (
        Search.new(PROMISES[number], rules(rule)).run&.last || ["Nothing is broken."]
      ).each_with_index { |line, i| puts format("%4d  %s", i + 1, line) }
    end

    private

    def promise(scenario)
      search = Search.new(scenario, rules)
      violation, story = search.run
      puts format(
        "%-50s %8d states  %s",
             scenario.title,
             search.states,
             violation ? "BROKEN" : "holds"
      )
      puts story if violation
      violation.nil?
    end

    def need(rule, property, scenario)
      search = Search.new(scenario, rules(rule))
      found, story = search.run
      puts format(
        "%-88s %-10s in %3d lines, %6d states",
             RULES[rule],
             found&.first || "nothing",
             story&.size || 0,
             search.states
      )
      puts "expected #{property}" if found&.first != property
      found&.first == property
    end
  end
end

if $PROGRAM_NAME == __FILE__
  case ARGV
  in ["--rules"] then LocalModel::RULES.each { |name, text| puts format("%-14s %s", name, text) }
  in ["--without", rule] then LocalModel.without(rule.to_sym)
  in [] then LocalModel.check
  else abort "usage: model.rb [--rules | --without RULE]"
  end
end
