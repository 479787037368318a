# frozen_string_literal: true

require "spec_helper"
require "logger"
require "stringio"
require "support/constants"
require "support/store_contract/helpers"
require_relative "mongo_locking/models"

RSpec.describe Mongo::Locking do
  include Support::StoreContract

  let(:order) { MongoModels::Order.new(SecureRandom.hex(4)) }
  let(:item) { MongoModels::OrderItem.new(1, order) }
  let(:flow) { MongoModels::JobFlow.new(item) }
  let(:name) { "MongoModels::Order/#{order.id}" }

  before { described_class.configure(store: "memory:") }

  after do
    described_class.configure(store: nil, logger: nil)
    described_class.instance_variable_set(:@options, {})
  end

  # A class whose instances are locked as the block declares.
  def lockable(&block)
    Class.new do
      include Mongo::Locking

      def self.name = "Thing"
      def id = 7
      class_eval(&block)
    end
  end

  def name_of(instance) = instance.class.locker.name_of(instance).to_s

  # Runs the block as another owner.
  def elsewhere(&block) = Thread.new(&block).value

  def refused(instance, **options)
    elsewhere do
      expect { instance.lock(**{ max_retries: 1 }, **options) { raise "entered" } }.to raise_error(
        Mongo::Locking::LockTimeout
      )
    end
  end

  describe ".configure" do
    it "returns itself, and refuses what it does not know" do
      expect(described_class.configure(logger: nil)).to be described_class
      expect { described_class.configure(retries: 3) }.to raise_error(NoMethodError, /retries=/)
      expect { described_class.configure(max_retries: "5") }.to raise_error(
        Mongo::Locking::Exceptions::ArgumentError, /max_retries/
      )
    end

    it "has the gem's defaults" do
      expect(described_class.options).to eq(
        { max_retries: 5, first_retry_interval: 0.2, max_retry_interval: 5, max_lifetime: 600 }
      )
      described_class.configure(max_retries: 3)
      expect([described_class.max_retries, described_class.max_lifetime]).to eq [3, 600]
    end

    it "needs a collection or a store" do
      described_class.configure(store: nil)
      expect { order.lock { raise "entered" } }.to raise_error(
        Mongo::Locking::InvalidConfig, "neither a collection nor a store is configured"
      )
      described_class.configure(collection: Object.new)
      expect { order.lock { raise "entered" } }.to raise_error(
        Mongo::Locking::InvalidConfig, "not a collection: Object"
      )
    end

    it "makes nothing for .ensure_indices where the locks are in a store of plock's" do
      expect(described_class.ensure_indices).to be_nil
    end

    it "calls a Proc at the first lock, and once" do
      calls = 0
      described_class.configure(store: -> { (calls += 1) && "memory:" })
      expect(calls).to be 0
      2.times { order.lock { nil } }
      expect(calls).to be 1
    end

    it "takes a store of plock's as it is" do
      store = discard(Plock::Store.open("memory:"), :close)
      described_class.configure(store: store)
      expect(described_class.store).to be store
    end
  end

  describe ".lockable!" do
    it "locks by id within the class's name by default" do
      expect(name_of(lockable { lockable! }.new)).to eq "Thing/7"
    end

    it "takes key and scope as names and as closures, which get the instance" do
      [
        [{ key: :hash_code }, "Thing/h"], [{ key: ->(me) { me.hash_code } }, "Thing/h"],
        [{ key: proc { |me| me.hash_code } }, "Thing/h"], [{ scope: "Other" }, "Other/7"],
        [{ scope: :other }, "other/7"], [{ scope: ->(me) { me.hash_code } }, "h/7"]
      ].each do |options, expected|
        type =
          lockable do
            def hash_code = :h
            lockable!(options)
          end
        expect(name_of(type.new)).to eq expected
      end
    end

    it "says what cannot be" do
      {
        { key: "id" } => "locker key must be a Proc or Symbol",
        { scope: 5 } => "locker scope must be a Proc, Symbol or String",
        { max_retries: "5" } => /max_retries must be a number/
      }.each do |options, message|
        expect { lockable { lockable!(options) } }.to raise_error(
          Mongo::Locking::Exceptions::ArgumentError, message
        )
      end
      expect(lockable { nil }.lockable!.name).to eq "Thing"
    end

    it "ignores options that it does not know, with a warning that names them" do
      type = nil
      heard =
        warnings do
          type = lockable { lockable!(key: :id, max_tries: 5, expire: true, max_retries: 3) }
        end
      expect(heard).to eq(["[Plock] Thing.lockable! ignores :max_tries, :expire: " \
                           "the options that it knows are :max_retries, " \
                           ":first_retry_interval, :max_retry_interval, :max_lifetime\n"])
      expect([name_of(type.new), type.locker.options]).to eq(["Thing/7", { max_retries: 3 }])
    end

    it "says so to the logger where there is one" do
      log = StringIO.new
      described_class.logger = Logger.new(log)
      lockable { lockable!(expire: true) }
      expect(log.string).to include("Thing.lockable! ignores :expire")
    ensure
      described_class.logger = nil
    end

    it "has its defaults for nil, as the gem has" do
      type = lockable { lockable!(key: nil, scope: nil) }
      expect(name_of(type.new)).to eq "Thing/7"
    end

    it "is inherited, the scope too" do
      expect(name_of(MongoModels::BigOrder.new(1))).to eq "MongoModels::Order/1"
    end
  end

  describe ".locked_by!" do
    ways = {
      "a name" => ->(type) { type.locked_by! :owner },
      "parent: a name" => ->(type) { type.locked_by! parent: :owner },
      "parent: a closure" => ->(type) { type.locked_by! parent: proc { |me| me.owner } },
      "a block" => ->(type) { type.locked_by! { |me| me.owner } }
    }
    ways.each do |way, declare|
      it "takes #{way}, and is inherited" do
        type = Class.new do
          include Mongo::Locking
          attr_accessor :owner
        end
        expect(declare.call(type)).to be type
        instance = Class.new(type).new
        instance.owner = order
        instance.lock { expect(order.have_lock?).to be true }
      end
    end

    it "says what cannot be" do
      expect { lockable { locked_by!("owner") } }.to raise_error(
        Mongo::Locking::Exceptions::ArgumentError, "parent reference must be a Proc or Symbol"
      )
      expect { lockable { locked_by! } }.to raise_error(
        Mongo::Locking::Exceptions::ArgumentError, /parent reference/
      )
    end
  end

  it "ignores options of .locked_by! that it does not know, with a warning that names them" do
    heard = warnings { lockable { locked_by!(:owner, expire: true) } }
    expect(heard).to contain_exactly(/Thing\.locked_by! ignores :expire/)
  end

  describe "#lock" do
    it "returns the block's value, and releases on every way out" do
      expect(order.lock { :value }).to be :value
      expect { order.lock { raise IOError } }.to raise_error(IOError)
      catch(:out) { order.lock { throw :out } }
      [1].each { order.lock { break } }
      expect(elsewhere { order.lock(max_retries: 1) { :free } }).to be :free
      expect(described_class.locks).to be_empty
    end

    it "needs a block" do
      expect { order.lock }.to raise_error(
        Mongo::Locking::Exceptions::ArgumentError, "MongoModels::Order#lock requires a block"
      )
    end

    it "locks the root, whichever object of the tree is locked" do
      flow.lock do
        expect([order, item, flow].map(&:have_lock?)).to eq [true, true, true]
        expect(described_class.locks.map { |held| [held.scope, held.key] }).to eq [
          ["MongoModels::Order", order.id]
        ]
        refused(order)
        refused(item)
      end
    end

    it "lets its holder in any number of times, and releases it with the outermost block" do
      order.lock do
        item.lock { flow.lock { order.lock { nil } } }
        expect(order.have_lock?).to be true
        refused(order)
      end
      expect(order.have_lock?).to be false
    end

    it "is a fiber's, not a thread's" do
      order.lock do
        Fiber.new do
          expect(order.have_lock?).to be false
          expect { order.lock(max_retries: 1) { raise "entered" } }.to raise_error(
            Mongo::Locking::LockTimeout
          )
        end.resume
      end
    end

    it "says which lock it did not get" do
      order.lock do
        elsewhere do
          expect { flow.lock(max_retries: 0) { raise "entered" } }.to raise_error(
            Mongo::Locking::LockTimeout, "unable to acquire lock #{name}"
          )
        end
      end
    end

    it "waits as long as the tries and pauses set by the call, class or configuration", :timing do
      waited = ->(instance, **options) do
        elsewhere do
          elapsed do
            expect { instance.lock(**options) { nil } }.to raise_error(Mongo::Locking::LockTimeout)
          end
        end
      end
      order.lock do
        at_most(0.45 + 0.05, least: 0.45) do
          waited.call(item, max_retries: 4, first_retry_interval: 0.15, max_retry_interval: 0.15)
        end
        at_most(0.35 + 0.05, least: 0.35) { waited.call(order, max_retries: 4) } # 0.05 + 0.1 + 0.2
        described_class.configure(max_retries: 3)
        at_most(0.15 + 0.05, least: 0.15) { waited.call(order) }
      end
    end

    it "waits for any number of tries" do
      waiter = nil
      order.lock do
        waiter = await_sleep(background { order.lock(max_retries: Float::INFINITY) { :mine } })
      end
      expect(waiter.value).to be :mine
      order.lock do
        [
          { max_retries: 10**12, first_retry_interval: 0 },
          { max_retries: 10**12, max_retry_interval: 0 }
        ].each { |options| refused(order, **options) }
      end
    end

    it "says what a lock cannot live for" do
      [0, 0.001, 10**9].each do |seconds|
        expect { order.lock(max_lifetime: seconds) { raise "entered" } }.to raise_error(
          Mongo::Locking::Exceptions::ArgumentError,
          "max_lifetime must be from 0.005 to 31622400.0 seconds (got #{seconds})"
        )
      end
    end

    it "has the lock as soon as its holder leaves" do
      waiter = nil
      order.lock { waiter = await_sleep(background { item.lock { :mine } }) }
      expect(waiter.value).to be :mine
    end

    it "is renewed, so that it lasts longer than max_lifetime where its process lives" do
      order.lock(max_lifetime: 0.1) do
        started = monotonic
        eventually { monotonic - started > 0.3 }
        refused(order)
        expect(order.have_lock?).to be true
      end
    end

    it "does not let in who had the lock, and lost it" do
      said = warnings do
        order.lock do
          described_class.break("MongoModels::Order", order.id)
          expect(order.have_lock?).to be false
          expect { item.lock { raise "entered" } }.to raise_error(
            Mongo::Locking::LockFailure, "lock #{name} was lost"
          )
        end
      end
      expect(said).to contain_exactly(/is lost before its block ended/)
    end

    it "has no owner in a forked child" do
      order.lock { expect(in_child { order.have_lock? }).to be false }
    end

    it "is its parent's alone where a block is forked in two" do
      child = ended = kept = nil
      said = warnings do
        order.lock do
          child = Process.fork
          next unless child # in the child, the block ends here

          ended = Process.wait2(child).last
          kept = order.have_lock?
        end
      end
      exit!(said.empty? && !order.have_lock? ? 0 : 1) unless child
      expect([ended.exitstatus, kept, said]).to eq [0, true, []]
    end

    it "is a LockFailure where the store fails, whose cause says more" do
      described_class.configure(store: "redis://127.0.0.1:1")
      expect { order.lock(max_retries: 1) { raise "entered" } }.to raise_error(
        Mongo::Locking::LockFailure, "unable to acquire lock #{name}"
      ) { |e| expect(e.cause).to be_a(Plock::UnavailableError) }
    end

    it "does not take the block's own errors for its own" do
      expect { order.lock { raise Plock::UnavailableError, "the block's" } }.to raise_error(
        Plock::UnavailableError, "the block's"
      )
    end

    it "leaves nothing behind, at whatever step it is interrupted" do
      order.lock { nil }
      interrupted_everywhere(-> { item.lock { order.lock { nil } } }) do
        expect(order.have_lock?).to be false
        eventually { described_class.locks.empty? }
      end
    end

    it "ignores an option that it does not know, with a warning that names it" do
      value = nil
      heard = warnings { value = order.lock(wait: 5, max_retries: 1) { :ran } }
      expect(value).to be :ran
      expect(heard).to match([/MongoModels::Order#lock ignores :wait: the options that it knows/])
      expect { order.lock(max_retries: "5") { raise "entered" } }.to raise_error(
        Mongo::Locking::Exceptions::ArgumentError, /max_retries must be a number/
      )
    end

    it "tells the logger" do
      heard = StringIO.new
      described_class.configure(logger: Logger.new(heard))
      order.lock { refused(order) }
      expect(heard.string).to include(
        "lock #{name} acquired", "lock #{name} could not be acquired",
        "MongoModels::Order#lock failed"
      )
    end
  end

  describe "a graph" do
    it "names the circle, and where it was entered does not matter" do
      first, second, third = Array.new(3) { |number| MongoModels::Node.new(number + 1) }
      first.up = second
      second.up = third
      third.up = second
      expect { first.lock { raise "entered" } }.to raise_error(
        Mongo::Locking::CircularLock,
        "circular lock: MongoModels::Node/2 -> MongoModels::Node/3 -> MongoModels::Node/2"
      )
      second.up = second
      expect { second.have_lock? }.to raise_error(
        Mongo::Locking::CircularLock, "circular lock: MongoModels::Node/2 -> MongoModels::Node/2"
      )
    end

    it "finds a circle of objects that are created again each time" do
      type = lockable { locked_by! { |me| me.class.new } }
      expect { type.new.lock { raise "entered" } }.to raise_error(
        Mongo::Locking::CircularLock, %r{\Acircular lock: Thing|#<Class.*/7 -> .* -> …\z}
      )
    end

    it "has to have a root" do
      [
        MongoModels::Node.new(1), MongoModels::Node.new(1, Object.new),
        MongoModels::Node.new(1, lockable { nil }.new)
      ].each do |node|
        expect { node.lock { raise "entered" } }.to raise_error(
          Mongo::Locking::InvalidConfig, /\Aroot #<.* is not lockable\z/
        )
      end
    end

    it "of 1,000 objects resolves in under a millisecond each", :timing do
      nodes =
        (1..999).inject([order]) { |all, number| all << MongoModels::Node.new(number, all.last) }
      at_most(0.001) do
        elapsed do
          nodes.each { |node| expect(MongoModels::Order.locker.root_for(node)).to be order }
        end / nodes.size
      end
      # the node that is farthest from its root
      at_most(0.001) { elapsed { MongoModels::Order.locker.root_for(nodes.last) } }
    end
  end

  describe "the list of held locks" do
    it "is listed with scope, key, owner and age, among other locks of the store" do
      described_class.store.acquire("another", label: "not one of these") do
        order.lock do
          expect(described_class.locks).to match [
            have_attributes(
              scope: "MongoModels::Order", key: order.id, age: be_between(0, 5),
              remaining: be_between(590, 600),
              owner: /\Ahost .*, pid #{Process.pid}, thread \d+\z/
            )
          ]
        end
      end
    end

    it "is told with scopes and keys of any kind" do
      ["a/b", "100%", "é", "a b", ""].each do |scope|
        lockable { lockable!(scope: scope, key: ->(_) { "k/#{scope}" }) }.new.lock do
          expect(described_class.locks).to match [have_attributes(scope: scope, key: "k/#{scope}")]
        end
      end
    end

    it "is another lock where scope and key only look the same together" do
      one, other =
        [%w[a b/c], %w[a/b c]].map do |scope, key|
          lockable { lockable!(scope: scope, key: ->(_) { key }) }.new
        end
      one.lock { expect(other.lock { :free }).to be :free }
    end

    it "may be long" do
      long = lockable { lockable!(key: ->(_) { "k" * 5_000 }) }.new
      long.lock { expect(described_class.locks.first.key).to match(/\Ak{50,}\z/) }
    end

    it "can be broken, by name and as it is listed" do
      warnings do
        order.lock do
          expect(described_class.break(described_class.locks.first)).to be true
          expect(
            elsewhere do
              order.lock(max_retries: 1) { described_class.break("MongoModels::Order", order.id) }
            end
          ).to be true
        end
      end
      expect(described_class.break("MongoModels::Order", order.id)).to be false
    end
  end

  it "has the names of errors, and puts none in the place of Ruby's into a class" do
    expect(Mongo::Locking::Exceptions.constants).to match_array(
      %i[Error ArgumentError InvalidConfig CircularLock LockTimeout LockFailure]
    )
    expect(Mongo::Locking::Exceptions::Error.superclass).to be RuntimeError
    expect(Mongo::Locking::ArgumentError).to be Mongo::Locking::Exceptions::ArgumentError
    expect { Mongo::Locking::Nothing }.to raise_error(NameError, /Nothing/)
    expect(MongoModels::Order.class_eval("ArgumentError", __FILE__, __LINE__)).to be ArgumentError
  end

  it "has an ArgumentError that is Ruby's, and an Error of its own" do
    error = begin
      order.lock
    rescue Mongo::Locking::Exceptions::Error => e
      e
    end
    expect(error).to be_a(Mongo::Locking::Exceptions::ArgumentError).and be_a(ArgumentError)
    expect(
      [Mongo::Locking::Exceptions::Error, RuntimeError, StandardError].map do |kind|
        error.is_a?(kind) && error.kind_of?(kind)
      end
    ).to eq([true, true, true])
    expect(
      [Mongo::Locking::Exceptions::LockTimeout, IOError].map do |kind|
        error.is_a?(kind) || kind === error
      end
    ).to eq([false, false])
    expect { order.lock }.to raise_error(ArgumentError, /requires a block/)
    expect(Class.new(Mongo::Locking::Exceptions::Error) === error).to be(false)
    expect(Mongo::Locking::Exceptions::Error === ArgumentError.new).to be(false)
    expect(Mongo::Locking::Exceptions::LockTimeout.new).to be_a(Mongo::Locking::Exceptions::Error)
  end

  # Inside the module Mongo, a bare `Logger` would be the driver's Mongo::Logger, and later drivers
  # may define more such names. So plock must write Ruby's own constants with `::`.
  it "names no constant of Ruby's without ::" do
    folder = File.join(Support::Examples::LIB, "plock/compat")
    files =
      Dir[File.join(folder, "mongo_locking{.rb,/**/*.rb}")].to_h do |path|
        [path, Support::Constants.new(File.read(path))]
      end
    own = files.values.flat_map(&:defined) - %w[Mongo]
    expect(files.size).to be > 10
    files.each do |path, constants|
      expect([path, constants.bare.reject { |name, _line| own.include?(name) }]).to eq([path, []])
    end
  end

  it "gives a class nothing but what it needs" do
    expect(
      MongoModels::Order.new(1).public_methods(false) - Object.instance_methods - %i[id]
    ).to be_empty
    expect(MongoModels::Order.public_instance_methods - Object.instance_methods).to match_array(
      %i[id lock have_lock?]
    )
  end

  it "loads no client library" do
    output, status = ruby(<<~RUBY)
      require "plock/compat/mongo_locking"
      Mongo::Locking.configure(store: "memory:")
      puts $LOADED_FEATURES, Mongo::Locking::CollectionStore
    RUBY
    expect(status).to be_success, output
    expect(
      output
        .lines
        .grep(%r{/(mongo|bson|dalli|active_support|active_record)\.rb})
        .grep_v(%r{/lib/plock/})
    ).to be_empty
  end
end
